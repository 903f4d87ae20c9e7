"""PyPI `mcp` 2.x as a client."""

import asyncio
from contextlib import asynccontextmanager

from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    ResourceUpdatedNotification,
    Root,
    TextContent,
    ToolListChangedNotification,
)
from script import Answer, Job, Role, main


def endpoint(job: Job):
    if job.url:
        return job.url
    return StdioServerParameters(command=job.command[0], args=job.command[1:], env=job.env)


class Mcp2(Role):
    @asynccontextmanager
    async def connected(self):
        self.notices = asyncio.Queue()
        async with Client(
            endpoint(self.job),
            mode="legacy" if self.job.legacy else "auto",
            log_level="info",
            sampling_callback=self.on_sampling,
            elicitation_callback=self.on_elicitation,
            list_roots_callback=self.on_roots,
            logging_callback=self.on_log,
            message_handler=self.on_message,
        ) as self.client:
            yield

    def revision(self):
        return self.client.protocol_version

    async def tools(self):
        return {tool.name: tool.output_schema is not None for tool in (await self.client.list_tools()).tools}

    async def call(self, tool, progress=None, **arguments):
        result = await self.client.call_tool(self.name(tool), arguments, progress_callback=progress)
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
        return [resource.uri for resource in (await self.client.list_resources()).resources]

    async def templates(self):
        listed = await self.client.list_resource_templates()
        return [template.uri_template for template in listed.resource_templates]

    async def read(self, uri):
        content = (await self.client.read_resource(uri)).contents[0]
        return getattr(content, "text", None) or content.blob

    async def prompts(self):
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name, /, **arguments):
        return (await self.client.get_prompt(self.name(name), arguments)).messages[0].content.text

    async def complete(self, prompt, argument, start):
        reference = PromptReference(name=self.name(prompt))
        return (await self.client.complete(reference, {"name": argument, "value": start})).completion.values

    async def want_logs(self):
        if self.job.legacy:
            await self.client.set_logging_level("info")

    @asynccontextmanager
    async def changes(self, uri):
        if self.job.legacy:
            await self.client.subscribe_resource(uri)
            yield self.notices
            await self.client.unsubscribe_resource(uri)
            return
        seen = asyncio.Queue()

        async def follow(subscription):
            async for event in subscription:
                seen.put_nowait(event.uri if isinstance(event, ResourceUpdated) else "tools")

        async with self.client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
            following = asyncio.create_task(follow(subscription))
            yield seen
            following.cancel()

    async def on_message(self, message):
        if isinstance(message, ToolListChangedNotification):
            self.notices.put_nowait("tools")
        elif isinstance(message, ResourceUpdatedNotification):
            self.notices.put_nowait(message.params.uri)

    async def on_log(self, params):
        self.logs.put_nowait((params.level, params.data))

    async def on_sampling(self, _context, params):
        text = self.sample(params.messages[0].content.text)
        return CreateMessageResult(role="assistant", content=TextContent(text=text), model="play")

    async def on_elicitation(self, _context, params):
        return ElicitResult(action="accept", content=self.elicit(params.mode, params.message))

    async def on_roots(self, _context):
        return ListRootsResult(roots=[Root(uri=self.roots())])


if __name__ == "__main__":
    main(Mcp2)
