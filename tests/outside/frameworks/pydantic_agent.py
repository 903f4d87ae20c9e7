"""pydantic-ai: an agent that runs to its end, with the stand-in for its model."""

from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from job import Job, main
from pydantic import TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset, PromptResult
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def transport(job: Job) -> ClientTransport:
    if job.transport == "stdio":
        return StdioTransport(job.command, job.args, env=job.env, keep_alive=False)
    return (SSETransport if job.transport == "sse" else StreamableHttpTransport)(job.url)


async def run(job: Job) -> dict:
    provider = OpenAIProvider(base_url=job.model, api_key="none")
    toolset = MCPToolset(transport(job), init_timeout=job.patience, read_timeout=job.patience)
    agent = Agent(OpenAIChatModel("stand-in", provider=provider), toolsets=[toolset], retries=len(job.calls))
    async with toolset:
        ended = await agent.run("Use it.")
        resource = await toolset.read_resource(job.resource)
        prompt = await toolset.get_prompt(*job.prompt)
    return {
        "end": ended.output,
        "resource": resource,
        "prompt": TypeAdapter(PromptResult).dump_python(prompt, mode="json"),
    }


if __name__ == "__main__":
    main(run)
