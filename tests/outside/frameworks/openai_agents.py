"""openai-agents: an agent that runs to its end, with the stand-in for its model."""

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from job import Job, main
from openai import AsyncOpenAI


def server(job: Job) -> MCPServer:
    options = {"name": "it", "client_session_timeout_seconds": job.patience}
    if job.transport == "stdio":
        return MCPServerStdio({"command": job.command, "args": job.args, "env": job.env}, **options)
    kind = MCPServerSse if job.transport == "sse" else MCPServerStreamableHttp
    return kind({"url": job.url, "timeout": job.patience}, **options)


async def run(job: Job) -> dict:
    set_tracing_disabled(True)
    model = OpenAIResponsesModel("stand-in", AsyncOpenAI(base_url=job.model, api_key="none"))
    async with server(job) as connected:
        agent = Agent("outside", instructions="Use it.", model=model, mcp_servers=[connected])
        ended = await Runner.run(agent, "Use it.", max_turns=len(job.calls) + 2)
        resource = await connected.read_resource(job.resource)
        prompt = await connected.get_prompt(*job.prompt)
    return {
        "end": ended.final_output,
        "resource": resource.model_dump(mode="json"),
        "prompt": prompt.model_dump(mode="json"),
    }


if __name__ == "__main__":
    main(run)
