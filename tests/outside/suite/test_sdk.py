"""The official Python SDK's client, over Streamable HTTP, HTTP+SSE and stdio."""

import asyncio
import os
from contextlib import asynccontextmanager
from datetime import timedelta

from anyio import BrokenResourceError
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from . import cases
from .check import Check, checks
from .stage import EVERYTHING, Door, Endpoint, Stage
from .wire import PATIENCE


@asynccontextmanager
async def connected(endpoint: Endpoint, **callbacks):
    """An initialized session."""
    closing = False
    with open(os.devnull, "w") as silence:
        try:
            async with _streams(endpoint, silence) as opened:
                limit = timedelta(seconds=PATIENCE)
                async with ClientSession(*opened[:2], limit, **callbacks) as session:
                    await session.initialize()
                    yield session
                    closing = True
        except* BrokenResourceError:
            # What a server writes while this client closes breaks it: python-sdk issue 1960.
            if not closing:
                raise


def _streams(endpoint: Endpoint, errlog):
    if endpoint.transport == "http":
        return streamable_http_client(endpoint.url)
    if endpoint.transport == "sse":
        return sse_client(endpoint.url)
    command = StdioServerParameters(
        command=endpoint.command, args=list(endpoint.args), env=endpoint.env
    )
    return stdio_client(command, errlog)


class Sdk(Check):
    client = "python sdk"

    def with_both(self, ask):
        """Runs `ask(session, door)` with the server itself, then with the door."""

        async def run():
            answers = []
            for door in (self.stage.direct, self.door):
                self.stage.reset()
                async with connected(door.endpoints[self.server]) as session:
                    answers.append(await ask(session, door))
            return answers

        return asyncio.run(asyncio.wait_for(run(), 4 * PATIENCE))

    def own(self, entries: list, door: Door) -> list[str]:
        mark = door.name(self.server, "")
        return [
            entry.model_copy(update={"name": entry.name.removeprefix(mark)}).model_dump_json()
            for entry in entries
            if entry.name.startswith(mark)
        ]

    def test_lists_and_calls_tools(self):
        calls = cases.calls(self.stage, self.server)

        async def ask(session: ClientSession, door: Door):
            listed = self.own((await session.list_tools()).tools, door)
            results = []
            for call in calls:
                result = await session.call_tool(door.name(self.server, call.tool), call.arguments)
                results.append(result.model_dump_json())
            await session.send_ping()
            return listed, results

        (direct_tools, direct), (tools, through) = self.with_both(ask)
        self.assert_same(direct_tools, tools)
        # What tells the time is compared by the bare client, which asks both within one tick.
        for call, expected, actual in zip(calls, direct, through, strict=True):
            with self.subTest(tool=call.tool, arguments=call.arguments):
                if not call.clocked:
                    self.assert_same(expected, actual)

    def test_resources_prompts_and_completion(self):
        async def ask(session: ClientSession, door: Door):
            prompts = self.own((await session.list_prompts()).prompts, door)
            templates = (await session.list_resource_templates()).resourceTemplates
            resources = {str(r.uri): r for r in (await session.list_resources()).resources}
            name = door.name(self.server, "completable-prompt")
            reference = types.PromptReference(type="ref/prompt", name=name)
            answers = [
                resources[cases.DOCUMENT],
                await session.read_resource(cases.DOCUMENT),
                await session.get_prompt(door.name(self.server, "args-prompt"), {"city": "Zürich"}),
                await session.complete(reference, {"name": "department", "value": "E"}),
            ]
            listed = {template.uriTemplate for template in templates}
            return prompts, listed, [answer.model_dump_json() for answer in answers]

        direct, through = self.with_both(ask)
        self.assertEqual((direct[0], direct[2]), (through[0], through[2]))
        self.assertLessEqual(direct[1], through[1])

    def test_progress_and_log_messages(self):
        """Both arrive at this client's callbacks, as they would from the server."""

        async def run():
            progress, logged = [], asyncio.Event()

            async def on_progress(done, total, _message):
                progress.append((done, total))

            async def on_log(_params):
                logged.set()

            endpoint = self.door.endpoints[self.server]
            async with connected(endpoint, logging_callback=on_log) as session:
                operation = self.door.name(self.server, "trigger-long-running-operation")
                asked = {"duration": 0.4, "steps": 4}
                await session.call_tool(operation, asked, progress_callback=on_progress)
                await session.set_logging_level("debug")
                toggle = self.door.name(self.server, "toggle-simulated-logging")
                await session.call_tool(toggle)
                await asyncio.wait_for(logged.wait(), PATIENCE)
                await session.call_tool(toggle)
            return progress

        self.assertEqual([(step, 4) for step in range(1, 5)], asyncio.run(run()))

    def test_roots(self):
        """What the server offers because of this client's roots; a moment after the greeting, it says so."""

        async def run(door: Door):
            changed = asyncio.Event()

            async def roots(_context):
                root = types.Root(uri="file:///srv/work", name="work")
                return types.ListRootsResult(roots=[root])

            async def hear(message):
                if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
                    changed.set()

            callbacks = {"list_roots_callback": roots, "message_handler": hear}
            name = door.name(self.server, "get-roots-list")
            async with connected(door.endpoints[self.server], **callbacks) as session:
                while True:
                    changed.clear()
                    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
                    if name in tools:
                        break
                    await changed.wait()
                answer = await session.call_tool(name, {})
                tool = tools[name].model_copy(update={"name": ""})
                return tool.model_dump_json(), answer.model_dump_json()

        def ask(door: Door):
            return asyncio.run(asyncio.wait_for(run(door), PATIENCE))

        self.stage.reset()
        direct = ask(self.stage.direct)
        self.assertIn("file:///srv/work", direct[1])
        self.assertEqual(direct, ask(self.door))


def tests(stage: Stage):
    yield from checks(Sdk, ["lists_and_calls_tools"], stage, list(stage.servers))
    for check in checks(Sdk, ["roots"], stage, list(EVERYTHING)):
        # A session that many clients share declares no roots.
        if not check.door.is_shared:
            yield check
    everything = ["resources_prompts_and_completion", "progress_and_log_messages"]
    yield from checks(Sdk, everything, stage, list(EVERYTHING))
