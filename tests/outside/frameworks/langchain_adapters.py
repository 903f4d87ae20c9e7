"""langchain-mcp-adapters: servers' tools as LangChain's, called as a model's tool calls are."""

from datetime import timedelta

from job import Job, main
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools


def connection(job: Job) -> dict:
    if job.transport == "stdio":
        return {"transport": "stdio", "command": job.command, "args": job.args, "env": job.env}
    if job.transport == "sse":
        return {"transport": "sse", "url": job.url, "timeout": job.patience}
    return {"transport": "streamable_http", "url": job.url, "timeout": timedelta(seconds=job.patience)}


async def called(tools: list, job: Job) -> list:
    by_name, results = {tool.name: tool for tool in tools}, []
    for number, (name, arguments) in enumerate(job.calls):
        call = {"type": "tool_call", "id": f"call_{number}", "name": name, "args": arguments}
        try:
            message = await by_name[name].ainvoke(call)
            results.append([message.status, message.content, message.artifact])
        except Exception as error:  # as it does for what a server marks as an error
            results.append(["raised", type(error).__name__, str(error)])
    return results


async def run(job: Job) -> dict:
    client = MultiServerMCPClient({"it": connection(job)})
    if job.transport == "stdio":
        # Without a session of its own each question would start the process anew.
        async with client.session("it") as session:
            tools = await load_mcp_tools(session)
            results = await called(tools, job)
            resources = await load_mcp_resources(session, uris=[job.resource])
            prompt = await load_mcp_prompt(session, job.prompt[0], arguments=job.prompt[1])
    else:
        tools = await client.get_tools()
        results = await called(tools, job)
        resources = await client.get_resources("it", uris=[job.resource])
        prompt = await client.get_prompt("it", job.prompt[0], arguments=job.prompt[1])
    return {
        "offered": {
            tool.name: {"description": tool.description, "schema": tool.args_schema, "metadata": tool.metadata}
            for tool in tools
        },
        "results": results,
        "resource": [[blob.as_string(), blob.mimetype] for blob in resources],
        "prompt": [message.model_dump() for message in prompt],
    }


if __name__ == "__main__":
    main(run)
