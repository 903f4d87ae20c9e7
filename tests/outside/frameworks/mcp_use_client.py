"""mcp-use for Python: a session that was opened from a configuration file's text."""

import os

os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"

from job import Job, main
from mcp_use import MCPClient


async def run(job: Job) -> dict:
    entry = {"url": job.url} if job.url else {"command": job.command, "args": job.args, "env": job.env}
    client = MCPClient.from_dict({"mcpServers": {"it": entry}})
    try:
        session = await client.create_session("it")
        tools = await session.list_tools()
        results = [
            (await session.call_tool(name, arguments)).model_dump(mode="json")
            for name, arguments in job.calls
        ]
        resource = await session.read_resource(job.resource)
        prompt = await session.get_prompt(*job.prompt)
    finally:
        await client.close_all_sessions()
    return {
        "offered": {tool.name: tool.model_dump(mode="json") for tool in tools},
        "results": results,
        "resource": resource.model_dump(mode="json"),
        "prompt": prompt.model_dump(mode="json"),
    }


if __name__ == "__main__":
    main(run)
