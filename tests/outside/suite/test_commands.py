"""Clients that are programs: the Inspector's command line and mcp-cli. Each start is one connection."""

import json
import subprocess
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from . import cases
from .check import Check, checks
from .stage import EVERYTHING, HERE, NODE, NODE_22, Door, Endpoint, Stage

MCP_CLI = HERE / ".venv-cli" / "bin" / "mcp-cli"
PATIENCE = 120  # seconds for one command; `mainstay mcp` starts every server for it


class Program(Check):
    """What is asked again without a change in between is kept, for each run of a program is slow."""

    _kept: dict[tuple, str] = {}

    def ask(self, endpoint: Endpoint, *question: str) -> str:
        """One run of the program; the text of its answer."""
        raise NotImplementedError

    def tools(self, door: Door) -> list[dict]:
        raise NotImplementedError

    def call(self, door: Door, call: cases.Call) -> str:
        raise NotImplementedError

    def kept(self, door: Door, *question: str) -> str:
        endpoint = door.endpoints[self.server]
        key = (self.client, endpoint, *question)
        if key not in self._kept:
            self._kept[key] = self.ask(endpoint, *question)
        return self._kept[key]

    def at_both(self, ask: Callable[[Door], object]) -> tuple:
        """Asks the server itself and the door at the same time."""
        with ThreadPoolExecutor(2) as pool:
            direct, through = pool.map(ask, (self.stage.direct, self.door))
        return direct, through

    def run_program(self, *command) -> str:
        done = subprocess.run(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=self.stage.folder,
        )
        words = " ".join(map(str, command))
        self.assertEqual(0, done.returncode, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def own(self, entries: list[dict], door: Door) -> list[dict]:
        mark = door.name(self.server, "")
        roots = f"{mark}get-roots-list"
        return [
            entry | {"name": entry["name"].removeprefix(mark)}
            for entry in entries
            if entry["name"].startswith(mark) and (self.hears_of_roots() or entry["name"] != roots)
        ]

    def hears_of_roots(self) -> bool:
        """Whether the server is told the same of the client's roots through the door as directly.

        It offers a tool only to clients that declare roots. mcp-cli does so on some transports only,
        and a session that many clients share declares none.
        """
        direct, through = (door.endpoints[self.server] for door in (self.stage.direct, self.door))
        return not self.door.is_shared and direct.transport == through.transport

    def test_lists_and_calls_tools(self):
        self.stage.reset()
        direct, through = self.at_both(self.tools)
        self.assertTrue(direct)
        self.assert_same(*(json.dumps(tools, indent=1) for tools in (direct, through)))
        call = cases.one_call(self.stage, self.server)

        def both():
            return self.at_both(lambda door: self.call(door, call))

        self.assert_same(*both(), both if call.clocked else None)


class Inspector(Program):
    client = "inspector"

    def ask(self, endpoint: Endpoint, *question: str) -> str:
        if endpoint.url:
            target = [endpoint.url, "--transport", endpoint.transport]
        else:
            target = [self.stage.launcher(endpoint)]
        return self.run_program(NODE_22, NODE / "mcp-inspector", "--cli", *target, "--method", *question)

    def tools(self, door: Door) -> list[dict]:
        return self.own(json.loads(self.kept(door, "tools/list"))["tools"], door)

    def call(self, door: Door, call: cases.Call) -> str:
        arguments = []
        for name, value in call.arguments.items():
            arguments += ["--tool-arg", f"{name}={value}"]
        name = door.name(self.server, call.tool)
        return self.ask(door.endpoints[self.server], "tools/call", "--tool-name", name, *arguments)

    def test_resources_and_prompts(self):
        def listed(door: Door):
            prompts = json.loads(self.kept(door, "prompts/list"))["prompts"]
            resources = json.loads(self.kept(door, "resources/list"))["resources"]
            return self.own(prompts, door), {entry["uri"]: entry for entry in resources}

        def fetched(door: Door):
            name = door.name(self.server, "args-prompt")
            prompt = ("prompts/get", "--prompt-name", name, "--prompt-args", "city=Zürich")
            return self.kept(door, *prompt), self.kept(door, "resources/read", "--uri", cases.DOCUMENT)

        (prompts, resources), through = self.at_both(listed)
        self.assert_same(prompts, through[0])
        self.assert_same(resources, {uri: through[1].get(uri) for uri in resources})
        self.assert_same(*self.at_both(fetched))


class McpCli(Program):
    client = "mcp-cli"

    def ask(self, endpoint: Endpoint, *question: str) -> str:
        """What the command prints after its greeting."""
        entry = endpoint.entry()
        if endpoint.transport == "sse":
            # It adds the path of the stream by itself.
            entry = {"url": endpoint.url.removesuffix("/sse"), "transport": "sse"}
        config = self.stage.folder / f"mcp-cli-{uuid.uuid4().hex}.json"
        config.write_text(json.dumps({"mcpServers": {"it": entry}}))
        command, *options = question
        reach = ["--server", "it", "--config-file", config]
        printed = self.run_program(MCP_CLI, command, *reach, *options)
        _, end, answer = printed.partition("Use --help to see all options\n")
        self.assertTrue(end, printed)
        return answer

    def tools(self, door: Door) -> list[dict]:
        answer = self.kept(door, "tools", "--raw")
        try:
            tools = self.own(json.loads(answer), door)
        except json.JSONDecodeError:
            self.fail(f"mcp-cli tools, {self.server} through {door.label}: {answer}")
        return tools

    def call(self, door: Door, call: cases.Call) -> str:
        name, arguments = door.name(self.server, call.tool), json.dumps(call.arguments)
        question = ("cmd", "--tool", name, "--tool-args", arguments, "--raw")
        answer = self.ask(door.endpoints[self.server], *question)
        self.assertNotIn("Tool execution failed", answer)  # it exits with 0 even then
        try:
            return json.dumps(json.loads(answer))  # its transports space the same JSON differently
        except json.JSONDecodeError:
            return answer

    def test_ping(self):
        self.assertIn("it: Connected", self.kept(self.door, "ping"))


def tests(stage: Stage):
    servers = list(stage.servers)
    yield from checks(Inspector, ["lists_and_calls_tools"], stage, servers)
    yield from checks(Inspector, ["resources_and_prompts"], stage, [EVERYTHING[0]])
    yield from checks(McpCli, ["lists_and_calls_tools"], stage, servers)
    yield from checks(McpCli, ["ping"], stage, ["every-http"])
