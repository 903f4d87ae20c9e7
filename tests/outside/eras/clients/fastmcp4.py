"""FastMCP's client, 4.x. At 2026-07-28 it has no way to be told of changes."""

import asyncio
from contextlib import asynccontextmanager

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp_types import (
    PromptReference,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from script import Answer, Role, main


class FastMcp4(Role):
    @property
    def steps(self):
        known = super().steps
        return {name: known[name] for name in known if self.job.legacy or name not in ("tools changed", "updated")}

    @asynccontextmanager
    async def connected(self):
        self.notices = asyncio.Queue()
        job = self.job
        if job.url:
            transport = StreamableHttpTransport(job.url)
        else:
            transport = StdioTransport(job.command[0], job.command[1:], env=job.env, keep_alive=False)
        async with Client(
            transport,
            mode="legacy" if job.legacy else "auto",
            sampling_handler=self.on_sampling,
            elicitation_handler=self.on_elicitation,
            roots=self.on_roots,
            log_handler=self.on_log,
            message_handler=self.on_message,
        ) as self.client:
            yield

    def revision(self):
        return self.client.protocol_version

    async def tools(self):
        return {tool.name: tool.output_schema is not None for tool in await self.client.list_tools()}

    async def call(self, tool, progress=None, **arguments):
        name = self.name(tool)
        result = await self.client.call_tool(name, arguments, progress_handler=progress, raise_on_error=False)
        return Answer(result.content[0].text, result.structured_content, result.is_error)

    async def cancel(self, tool, **arguments):
        running = asyncio.Event()

        async def on_progress(*_):
            running.set()

        call = asyncio.create_task(self.call(tool, on_progress, **arguments))
        await running.wait()
        call.cancel()
        await asyncio.wait([call])

    async def uris(self):
        return [str(resource.uri) for resource in await self.client.list_resources()]

    async def templates(self):
        return [template.uri_template for template in await self.client.list_resource_templates()]

    async def read(self, uri):
        content = (await self.client.read_resource(uri))[0]
        return getattr(content, "text", None) or content.blob

    async def prompts(self):
        return [prompt.name for prompt in await self.client.list_prompts()]

    async def prompt(self, name, /, **arguments):
        return (await self.client.get_prompt(self.name(name), arguments)).messages[0].content.text

    async def complete(self, prompt, argument, start):
        reference = PromptReference(name=self.name(prompt))
        return (await self.client.complete(reference, {"name": argument, "value": start})).values

    async def want_logs(self):
        if self.job.legacy:
            await self.client.set_logging_level("info")

    @asynccontextmanager
    async def changes(self, uri):
        await self.client.session.subscribe_resource(uri)
        yield self.notices
        await self.client.session.unsubscribe_resource(uri)

    async def on_message(self, message):
        if isinstance(message, ToolListChangedNotification):
            self.notices.put_nowait("tools")
        elif isinstance(message, ResourceUpdatedNotification):
            self.notices.put_nowait(message.params.uri)

    async def on_log(self, params):
        self.logs.put_nowait((params.level, params.data))

    async def on_sampling(self, messages, _params, _context):
        return self.sample(messages[0].content.text)

    async def on_elicitation(self, message, kind, params, _context):
        return self.elicit(params.mode, message)

    async def on_roots(self, _context):
        return [self.roots()]


if __name__ == "__main__":
    main(FastMcp4)
