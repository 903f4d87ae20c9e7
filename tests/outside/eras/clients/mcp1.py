"""PyPI `mcp` 1.x as a client."""

import asyncio
from contextlib import asynccontextmanager

from anyio import BrokenResourceError
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from script import Answer, Role, main


class Mcp1(Role):
    @asynccontextmanager
    async def connected(self):
        self.notices = asyncio.Queue()
        closing = False
        try:
            async with self.streams() as (read, write, *_):
                async with ClientSession(
                    read,
                    write,
                    sampling_callback=self.on_sampling,
                    elicitation_callback=self.on_elicitation,
                    list_roots_callback=self.on_roots,
                    logging_callback=self.on_log,
                    message_handler=self.on_message,
                ) as self.session:
                    self.greeting = await self.session.initialize()
                    yield
                    closing = True
        except* BrokenResourceError:
            # What a server writes while this client closes breaks it: python-sdk issue 1960.
            if not closing:
                raise

    def streams(self):
        job = self.job
        if job.url:
            return streamable_http_client(job.url)
        return stdio_client(StdioServerParameters(command=job.command[0], args=job.command[1:], env=job.env))

    def revision(self):
        return self.greeting.protocolVersion

    async def tools(self):
        return {tool.name: tool.outputSchema is not None for tool in (await self.session.list_tools()).tools}

    async def call(self, tool, progress=None, **arguments):
        result = await self.session.call_tool(self.name(tool), arguments, progress_callback=progress)
        return Answer(result.content[0].text, result.structuredContent, result.isError)

    async def cancel(self, tool, **arguments):
        """It has no call for this: the notification is sent by hand, for the id that comes next."""
        running = asyncio.Event()

        async def on_progress(*_):
            running.set()

        params = types.CancelledNotificationParams(requestId=self.session._request_id)
        call = asyncio.create_task(self.call(tool, on_progress, **arguments))
        await running.wait()
        notice = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(notice))
        call.cancel()
        await asyncio.wait([call])

    async def uris(self):
        return [str(resource.uri) for resource in (await self.session.list_resources()).resources]

    async def templates(self):
        listed = await self.session.list_resource_templates()
        return [template.uriTemplate for template in listed.resourceTemplates]

    async def read(self, uri):
        content = (await self.session.read_resource(uri)).contents[0]
        return getattr(content, "text", None) or content.blob

    async def prompts(self):
        return [prompt.name for prompt in (await self.session.list_prompts()).prompts]

    async def prompt(self, name, /, **arguments):
        return (await self.session.get_prompt(self.name(name), arguments)).messages[0].content.text

    async def complete(self, prompt, argument, start):
        reference = types.PromptReference(type="ref/prompt", name=self.name(prompt))
        return (await self.session.complete(reference, {"name": argument, "value": start})).completion.values

    async def want_logs(self):
        await self.session.set_logging_level("info")

    @asynccontextmanager
    async def changes(self, uri):
        await self.session.subscribe_resource(uri)
        yield self.notices
        await self.session.unsubscribe_resource(uri)

    async def on_message(self, message):
        notice = getattr(message, "root", None)
        if isinstance(notice, types.ToolListChangedNotification):
            self.notices.put_nowait("tools")
        elif isinstance(notice, types.ResourceUpdatedNotification):
            self.notices.put_nowait(str(notice.params.uri))

    async def on_log(self, params):
        self.logs.put_nowait((params.level, params.data))

    async def on_sampling(self, _context, params):
        content = types.TextContent(type="text", text=self.sample(params.messages[0].content.text))
        return types.CreateMessageResult(role="assistant", content=content, model="play")

    async def on_elicitation(self, _context, params):
        return types.ElicitResult(action="accept", content=self.elicit(params.mode, params.message))

    async def on_roots(self, _context):
        return types.ListRootsResult(roots=[types.Root(uri=self.roots())])


if __name__ == "__main__":
    main(Mcp1)
