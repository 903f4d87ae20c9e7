"""Clients as people use them: agents with a stand-in for their model, frameworks, a command line.

Who they are, and one visit of each to one address.
"""

import json
import os
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from . import cases
from .model import END, Model, Play
from .stage import HERE, MARK, NODE, NODE_22, Door, Endpoint, Stage, doors, sse_doors
from .wire import Peer

PATIENCE = 180  # seconds for one visit; an agent's own limits for its servers are set a little shorter
LIMIT = 120
FRAMEWORKS = HERE / "frameworks"
PYTHON = HERE / ".venv-agents" / "bin" / "python"
OPENCODE = HERE / "node_modules" / "opencode-linux-x64-baseline" / "bin" / "opencode"

# What the server is called in the clients' own configurations, and behind Mainstay.
ALIAS, SERVER = "it", "every"

CALLS = [
    cases.Call("echo", {"message": cases.UNICODE}),
    cases.Call("get-structured-content", {"location": "Chicago"}),
    cases.Call("get-tiny-image", {}),
    cases.Call("get-resource-links", {"count": 3}),
    cases.Call("get-sum", {"a": "no number"}),  # answered with isError
]
CITY = "Zürich"
PROMPT = ("args-prompt", {"city": CITY})
# How what the prompt makes of that begins.
PROMPTED = f"What's weather in {CITY}"


@dataclass(frozen=True)
class Visit:
    """Where a client goes, in a folder of its own, which is its home as well."""

    endpoint: Endpoint
    folder: Path
    model: str  # its model's address
    reader: str  # the address of a model that calls nothing
    name: Callable[[str], str]  # of a tool or a prompt, as the address lists it

    def write(self, path: str, content: dict | str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return file

    @property
    def argv(self) -> list[str]:
        return [self.endpoint.command, *self.endpoint.args]


@dataclass
class Seen:
    """What one visit showed."""

    offered: dict[str, object] = field(default_factory=dict)  # by the client's name for the tool
    results: list[object] = field(default_factory=list)
    more: dict[str, object] = field(default_factory=dict)
    failed: str = ""
    seconds: float = 0


Run = Callable[[list, dict[str, str]], str]  # a command and its environment; what it prints


@dataclass(frozen=True)
class Client:
    label: str
    transports: frozenset[str]
    visit: Callable[[Visit, Run], Seen]
    spell: Callable[[str], str] = str  # its own name for a tool
    asks_model: bool = False
    calls: int = len(CALLS)
    reads: str = ""  # its own tool that reads resources, which its model calls
    is_prompted: bool = False  # with the server's prompt, in a run of its own
    is_missing: bool = False

    @property
    def own_calls(self) -> list[cases.Call]:
        if not self.reads:
            return []
        return [cases.Call(self.reads, {"server": ALIAS, "uri": cases.DOCUMENT})]


# --- agents ---------------------------------------------------------------------------------------


def _claude(visit: Visit, run: Run) -> Seen:
    entry = visit.endpoint.entry()
    if visit.endpoint.url:
        entry["type"] = visit.endpoint.transport
    config = visit.write("mcp.json", {"mcpServers": {ALIAS: entry}})
    env = {
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else the model would have to look for tools
        "MCP_TIMEOUT": str(LIMIT * 1000),
        "MCP_CONNECTION_NONBLOCKING": "false",
    }
    options = ["--strict-mcp-config", "--mcp-config", config, "--allowedTools", f"mcp__{ALIAS}"]

    def ask(words: str, model: str) -> Seen:
        return _ended(run([NODE / "claude", "-p", words, *options], env | {"ANTHROPIC_BASE_URL": model}))

    prompt = f"/mcp__{ALIAS}__{visit.name(PROMPT[0])} {CITY}"
    return _both(ask("Use it.", visit.model), ask(prompt, visit.reader))


def _codex(visit: Visit, run: Run) -> Seen:
    endpoint = visit.endpoint
    # JSON's strings and arrays are TOML's, and inline tables differ in their mark only.
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in endpoint.env.items())
    where = (
        f"url = {json.dumps(endpoint.url)}"
        if endpoint.url
        else f"command = {json.dumps(endpoint.command)}\nargs = {json.dumps(endpoint.args)}\n"
        f"env = {{ {variables} }}"
    )
    config = f"""
        model = "stand-in"
        model_provider = "stand-in"
        [model_providers.stand-in]
        name = "stand-in"
        base_url = "{visit.model}"
        wire_api = "responses"
        [mcp_servers.{ALIAS}]
        required = true
        startup_timeout_sec = {LIMIT}
        tool_timeout_sec = {LIMIT}
        {where}
    """
    visit.write(".codex/config.toml", config)
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return _ended(run([NODE / "codex", "exec", *options, "Use it."], {}))


def _gemini(visit: Visit, run: Run) -> Seen:
    endpoint, entry = visit.endpoint, visit.endpoint.entry()
    if endpoint.transport == "http":
        entry = {"httpUrl": endpoint.url}
    settings = {
        "mcpServers": {ALIAS: entry | {"trust": True, "timeout": LIMIT * 1000}},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    visit.write(".gemini/settings.json", settings)
    # With a model of its choice it would first ask another one which to take.
    options = ["--yolo", "--skip-trust", "--model", "gemini-2.5-flash"]

    def ask(words: str, model: str) -> Seen:
        env = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model}
        return _ended(run([NODE / "gemini", "-p", words, *options], env))

    prompt = f"/{visit.name(PROMPT[0])} --city={CITY}"
    return _both(ask("Use it.", visit.model), ask(prompt, visit.reader))


def _opencode(visit: Visit, run: Run) -> Seen:
    endpoint = visit.endpoint
    entry = (
        {"type": "remote", "url": endpoint.url, "oauth": False}
        if endpoint.url
        else {"type": "local", "command": visit.argv, "environment": endpoint.env}
    )

    def provider(model: str) -> dict:
        return {
            "npm": "@ai-sdk/openai-compatible",  # it brings this one
            "name": "stand-in",
            "options": {"baseURL": model, "apiKey": "none"},
            "models": {"m": {"name": "m", "tool_call": True}},
        }

    config = {
        "mcp": {ALIAS: entry | {"enabled": True, "timeout": LIMIT * 1000}},
        "provider": {"stand-in": provider(visit.model), "reader": provider(visit.reader)},
        "model": "stand-in/m",
        "small_model": "stand-in/m",
        "permission": "allow",
        "autoupdate": False,
        "share": "disabled",
    }
    env = {
        "OPENCODE_CONFIG": str(visit.write("opencode.json", config)),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }

    def ask(*words: str) -> Seen:
        return _ended(run([OPENCODE, "run", *words], env))

    prompt = ("--command", f"{ALIAS}:{visit.name(PROMPT[0])}", CITY)
    return _both(ask("Use it."), ask("--model", "reader/m", *prompt))


def _both(first: Seen, second: Seen) -> Seen:
    """Of two runs of an agent."""
    return Seen(failed=first.failed or second.failed)


def _ended(printed: str) -> Seen:
    """Of an agent; what it saw is what its model was shown."""
    return Seen(failed="" if END in printed else f"it does not say its last word: {printed[-2000:]}")


# --- frameworks -----------------------------------------------------------------------------------


def _framework(program: str) -> Callable[[Visit, Run], Seen]:
    def visit_by(visit: Visit, run: Run) -> Seen:
        endpoint = visit.endpoint
        job = {
            "command": endpoint.command,
            "args": endpoint.args,
            "env": endpoint.env | {"PATH": os.environ["PATH"]},
            "url": endpoint.url,
            "transport": endpoint.transport,
            "model": visit.model,
            "calls": [(visit.name(call.tool), call.arguments) for call in CALLS],
            "prompt": (visit.name(PROMPT[0]), PROMPT[1]),
            "resource": cases.DOCUMENT,
            "patience": LIMIT,
        }
        env = {"MCP_USE_ANONYMIZED_TELEMETRY": "false"}
        printed = run([PYTHON, FRAMEWORKS / program, json.dumps(job)], env)
        seen = json.loads(printed.splitlines()[-1])  # what comes before is what its framework says
        failed = "" if seen.pop("end", END) == END else "its agent does not say its last word"
        return Seen(seen.pop("offered", {}), seen.pop("results", []), seen, failed)

    return visit_by


# --- command lines --------------------------------------------------------------------------------


def _mcporter(visit: Visit, run: Run) -> Seen:
    entry = visit.endpoint.entry()
    config = visit.write("mcporter.json", {"mcpServers": {ALIAS: entry}, "imports": []})
    env = {name: str(LIMIT * 1000) for name in ("MCPORTER_LIST_TIMEOUT", "MCPORTER_CALL_TIMEOUT")}

    def ask(*words: str) -> dict:
        return json.loads(run([NODE_22, NODE / "mcporter", "--config", config, *words], env))

    listed = ask("list", ALIAS, "--json")
    offered = {tool["name"]: tool for tool in listed["tools"]}
    results = []
    for call in CALLS[:2]:  # each is a run
        where = ("call", f"{ALIAS}.{visit.name(call.tool)}")
        results.append(ask(*where, "--args", json.dumps(call.arguments), "--output", "json"))
    return Seen(offered, results, {"resource": ask("resource", ALIAS, cases.DOCUMENT, "--json")})


ALL = frozenset({"stdio", "http", "sse"})
CLIENTS = [
    Client("mcporter", ALL, _mcporter, calls=2),
    Client("mcp-use", ALL, _framework("mcp_use_client.py")),
    Client("langchain-mcp-adapters", ALL, _framework("langchain_adapters.py")),
    Client("openai-agents", ALL, _framework("openai_agents.py"), asks_model=True),
    Client("pydantic-ai", ALL, _framework("pydantic_agent.py"), asks_model=True),
    Client(
        "Codex",
        frozenset({"stdio", "http"}),
        _codex,
        lambda name: f"mcp__{ALIAS}{name.replace('-', '_')}",
        asks_model=True,
        reads="read_mcp_resource",
    ),
    Client(
        "Gemini CLI",
        ALL,
        _gemini,
        lambda name: f"mcp_{ALIAS}_{name}",
        asks_model=True,
        reads="read_mcp_resource",
        is_prompted=True,
    ),
    Client(
        "opencode",
        frozenset({"stdio", "http"}),
        _opencode,
        lambda name: f"{ALIAS}_{name}",
        asks_model=True,
        reads="read_mcp_resource",
        is_prompted=True,
        is_missing=not OPENCODE.exists(),
    ),
    Client(
        "Claude Code",
        ALL,
        _claude,
        lambda name: f"mcp__{ALIAS}__{name}",
        asks_model=True,
        reads="ReadMcpResourceTool",
        is_prompted=True,
    ),
]


class Failure(Exception):
    """A program did not do what it was run for."""


# Beside the server that is looked at stands another one, so that names of one address are of both.
_SERVED = {SERVER: "every-stdio", "memory": "memory"}


class Visits:
    """One server, a Mainstay in front of it, and the visits of all clients.

    They begin when the first of them is asked for: they are many, and would slow down what runs before.
    """

    def __init__(self, stage: Stage):
        self.stage = stage
        self.direct = Door("itself", {SERVER: stage.servers["every-stdio"]})
        self.doors = [Door("again", self.direct.endpoints)]
        if stage.mainstay:
            entries = {name: stage.servers[server].entry() for name, server in _SERVED.items()}
            base = stage.serve("agents", entries)
            stdio = stage.over_stdio("agents", entries)
            self.doors = doors(base, stdio, [SERVER]) + sse_doors(base, [SERVER])
        self._model = Model()
        self._expected: dict[tuple[str, str], tuple[Client, Door]] = {}
        self._runs: dict[tuple[str, str], Future[Seen]] = {}
        self._lanes = ThreadPoolExecutor(2)
        self._children: set[subprocess.Popen] = set()
        self._lock = threading.Lock()  # guards the children, and that none is started after the end
        self._over = False
        stage.on_exit(self.close)

    @cached_property
    def tools(self) -> list[str]:
        """What the server offers to a client that declares nothing, and so to every client."""
        with Peer(self.direct.endpoints[SERVER]) as peer:
            return [json.loads(tool)["name"] for tool in peer.listing("tools/list", "tools")]

    def expect(self, client: Client, door: Door):
        self._expected[client.label, door.label] = (client, door)

    def seen(self, client: Client, door: Door) -> Seen:
        for key, one in self._expected.items():
            if key not in self._runs:
                self._runs[key] = self._lanes.submit(self._visit, *one)
        return self._runs[client.label, door.label].result()

    def close(self):
        with self._lock:
            self._over = True
            for child in self._children:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        self._lanes.shutdown(cancel_futures=True)
        self._model.close()

    def _visit(self, client: Client, door: Door) -> Seen:
        def name(tool: str) -> str:
            return door.name(SERVER, tool)

        def pick(offered: list[str], tool: str) -> str | None:
            spelled = tool if tool == client.reads else client.spell(name(tool))
            return spelled if spelled in offered else None

        folder = self.stage.folder / f"visit-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        play, read = Play(CALLS + client.own_calls, pick), Play([], pick)
        models = self._model.stage(folder.name, play), self._model.stage(f"{folder.name}-reads", read)
        visit = Visit(door.endpoints[SERVER], folder, *models, name)

        def run(command: list, env: dict[str, str]) -> str:
            return self._run(folder, command, env)

        start = time.monotonic()
        try:
            seen = client.visit(visit, run)
        except Failure as failure:
            seen = Seen(failed=str(failure))
        seen.seconds = time.monotonic() - start
        if client.asks_model:
            seen.offered, seen.results = play.offered, play.results
            if strange := play.strange + read.strange:
                seen.failed += f"\nits model is asked for {strange}"
        if client.is_prompted:
            seen.more["prompt"] = sorted(text for text in read.said if PROMPTED in text)
        return seen

    def _run(self, folder: Path, command: list, env: dict[str, str]) -> str:
        words = list(map(str, command))
        # Nothing of who runs the tests: their agents' settings are in such variables, too.
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
        own = {"HOME": str(folder), "TERM": "xterm-256color", MARK: self.stage.mark}
        with self._lock:
            if self._over:
                raise Failure("the run is over")
            child = subprocess.Popen(
                words,
                env=kept | own | env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._children.add(child)
        try:
            stdout, stderr = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            stdout, stderr = child.communicate()
        finally:
            with self._lock:
                self._children.discard(child)
        printed, errors = stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")
        if child.returncode:
            end = f"{printed[-2000:]}\n{errors[-2000:]}"
            raise Failure(f"{Path(words[0]).name} ended with {child.returncode}:\n{end}")
        return printed


# What differs between two visits to the same server: how long a call took, drawn ids, places of files.
_PASSING = re.compile(
    r"Wall time: [0-9.]+ seconds|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|visit-[0-9a-f]{8}"
    r"|[0-9]{13}-[0-9a-z]{6}[.]png"
)


def comparable(value: object, door: Door) -> str:
    """As text, without what differs between visits, nor the address's prefix of the server's names."""
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    return _PASSING.sub("…", text.replace(door.name(SERVER, ""), ""))
