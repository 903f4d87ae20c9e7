"""The stage: real servers, a Mainstay in front of them, and the doors that lead to both."""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
NODE = HERE / "node_modules" / ".bin"
# The Inspector needs Node 22, which npm brings where it has one for this machine.
NODE_22 = NODE / "node" if (NODE / "node").exists() else "node"
VENV = HERE / ".venv" / "bin"
PATIENCE = 90  # seconds for a start on a loaded machine

# Every process of a run carries this in its environment, so that what is left over can be told.
MARK = "MAINSTAY_OUTSIDE_RUN"

# The same server behind each of the three transports.
EVERYTHING = ("every-stdio", "every-http", "every-sse")


class StartError(Exception):
    """A program did not come up; the message has its last lines."""


@dataclass(frozen=True)
class Endpoint:
    """Where an MCP server is reached: by a command to run, or by a URL."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, hash=False)
    url: str = ""
    transport: str = "stdio"  # or http, sse

    def entry(self) -> dict:
        """As one writes it under `mcpServers`; the transport of a URL is left to be found out."""
        if self.url:
            return {"url": self.url}
        return {"command": self.command, "args": list(self.args), "env": self.env}


@dataclass(frozen=True)
class Door:
    """A way in. Without `prefixed`, each server has its own endpoint and its own names. Where the door is
    shared, many clients are one to the server."""

    label: str
    endpoints: dict[str, Endpoint] = field(hash=False)
    prefixed: bool = False
    is_shared: bool = False

    def name(self, server: str, name: str) -> str:
        return f"{server}__{name}" if self.prefixed else name


class Stage:
    """Everything a run needs, under one temporary folder. Use it as a context manager."""

    def __init__(self, mainstay: Path | None):
        self.mainstay = mainstay
        self._held = ExitStack()
        self.mark = uuid.uuid4().hex
        self.daemons: dict[str, subprocess.Popen] = {}
        self.reports: list[object] = []  # printed after the run
        # Connections that tests share because opening them starts every server anew.
        self.shared: dict[Endpoint, AbstractContextManager] = {}

    def __enter__(self):
        with self._held:
            folder = tempfile.TemporaryDirectory(prefix="mainstay-outside-")
            self.folder = Path(self._held.enter_context(folder)).resolve()
            os.environ[MARK] = self.mark
            os.environ["HOME"] = str(self.folder)  # clients keep state there
            self.servers = self._servers()
            self.reset()
            self.direct = Door("direct", self.servers)
            self.doors = self._open_doors() if self.mainstay else [Door("again", self.servers)]
            self._held = self._held.pop_all()
        return self

    def __exit__(self, *_):
        self.hang_up()
        self._held.close()

    def hang_up(self):
        while self.shared:
            self.shared.popitem()[1].__exit__(None, None, None)

    def reset(self):
        """Puts back what the servers' tools change, so that each client finds the same."""
        (self.folder / "files" / "written.txt").unlink(missing_ok=True)
        known = {
            "type": "entity",
            "name": "Zoë",
            "entityType": "person",
            "observations": ["likes ☃", "1e400"],
        }
        line = json.dumps(known, ensure_ascii=False) + "\n"
        (self.folder / "memory.jsonl").write_text(line, "utf-8")

    def on_exit(self, close: Callable[[], None]):
        self._held.callback(close)

    def launcher(self, endpoint: Endpoint) -> str:
        """One word that runs the endpoint's command, for clients that cannot tell its options from theirs."""
        words = [f"{name}={value}" for name, value in endpoint.env.items()]
        text = shlex.join(["exec", "env", *words, endpoint.command, *endpoint.args])
        path = self.folder / f"launch-{uuid.uuid5(uuid.NAMESPACE_OID, text).hex}"
        if not path.exists():
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        return str(path)

    def survivors(self) -> dict[int, str]:
        """Processes of this run, by id, but for those the stage itself started and will end."""
        found = {}
        sought = f"{MARK}={self.mark}".encode()
        stage = {os.getpid(), *self._started}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if int(process.name) not in stage and sought in (process / "environ").read_bytes():
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(process.name)] = command
            except OSError:
                continue  # gone meanwhile
        return found

    def stop_daemons(self) -> dict[str, int]:
        """Asks each Mainstay to end and returns their exit codes."""
        for daemon in self.daemons.values():
            daemon.send_signal(signal.SIGTERM)
        return {name: daemon.wait(30) for name, daemon in self.daemons.items()}

    def serve(self, name: str, entries: dict[str, dict]) -> str:
        """Starts a Mainstay in front of these servers; returns its address."""
        port = free_port()
        listen = ["--listen", f"127.0.0.1:{port}"]
        command = [self.mainstay, "serve", "--config", self._config(name, entries), *listen]
        home = {"MAINSTAY_HOME": str(self.folder / name)}
        self.daemons[name] = self.launch(name, command, port, home)
        self._await_ready(name, port)
        return f"http://127.0.0.1:{port}"

    def over_stdio(self, name: str, entries: dict[str, dict]) -> Endpoint:
        """The command that runs a Mainstay in front of these servers."""
        home = str(self.folder / f"{name}-stdio")
        # Each client has servers of its own, as it has without a daemon.
        arguments = ("mcp", "--standalone", "--config", str(self._config(name, entries)))
        return Endpoint(str(self.mainstay), arguments, {"MAINSTAY_HOME": home, MARK: self.mark})

    def _config(self, name: str, entries: dict[str, dict]) -> Path:
        config = self.folder / f"{name}.json"
        # Lists wait for servers that start slowly when the machine is busy.
        wait = {"waitMs": PATIENCE * 1000}
        config.write_text(json.dumps({"startup": wait, "mcpServers": entries}, indent=2))
        return config

    def log(self, name: str) -> str:
        text = (self.folder / f"{name}.log").read_text("utf-8", "replace")
        return "\n".join(text.splitlines()[-40:])

    def _servers(self) -> dict[str, Endpoint]:
        files = self.folder / "files"
        (files / "empty").mkdir(parents=True)
        (files / "notes.md").write_text("# Notes\n\ngrüße, ☃ and 😀\u2028end\n", "utf-8")
        repository = self._repository()
        everything = NODE / "mcp-server-everything"
        streamable, sse = free_port(), free_port()
        self._started: set[int] = set()
        self.launch("every-http", [everything, "streamableHttp"], streamable)
        self.launch("every-sse", [everything, "sse"], sse)

        def child(command: Path, *args, **env):
            return Endpoint(str(command), tuple(map(str, args)), env | {MARK: self.mark})

        memory = {"MEMORY_FILE_PATH": str(self.folder / "memory.jsonl")}
        http_url, sse_url = f"http://127.0.0.1:{streamable}/mcp", f"http://127.0.0.1:{sse}/sse"
        return {
            "every-stdio": child(everything, "stdio"),
            "every-http": Endpoint(url=http_url, transport="http"),
            "every-sse": Endpoint(url=sse_url, transport="sse"),
            "files": child(NODE / "mcp-server-filesystem", files),
            "memory": child(NODE / "mcp-server-memory", **memory),
            "time": child(VENV / "mcp-server-time", "--local-timezone", "UTC"),
            "git": child(VENV / "mcp-server-git", "--repository", repository),
        }

    def _open_doors(self) -> list[Door]:
        entries = {name: server.entry() for name, server in self.servers.items()}
        # One of the two URLs is pinned; the other's transport has to be found out.
        entries["every-http"]["type"] = "streamable-http"
        self.base = self.serve("mainstay", entries)
        return doors(self.base, self.over_stdio("mainstay", entries), self.servers)

    def _await_ready(self, name: str, port: int):
        end = time.monotonic() + PATIENCE
        seen = "no answer"
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            try:
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                seen = f"{answer.status} {answer.read().decode()}"
                if answer.status == 200:
                    return
            except OSError as error:
                seen = str(error)
                if self.daemons[name].poll() is not None:
                    break
            finally:
                connection.close()
            time.sleep(0.1)
        raise StartError(f"/readyz never was 200: {seen}\n{self.log(name)}")

    def launch(self, name: str, command: list, port: int, env: dict | None = None):
        """Starts a listening program in its own process group and waits until it listens."""
        log = self._held.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            list(map(str, command)),
            env=os.environ | {"PORT": str(port)} | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._started.add(process.pid)
        self._held.callback(_end, process)
        end = time.monotonic() + PATIENCE
        while not _listens(port):
            if process.poll() is not None:
                raise StartError(f"{name} ended with {process.returncode}:\n{self.log(name)}")
            if time.monotonic() > end:
                raise StartError(f"{name} does not listen:\n{self.log(name)}")
            time.sleep(0.05)
        return process

    def _repository(self) -> Path:
        path = self.folder / "repository"
        path.mkdir()
        who = {"NAME": "Zoë", "EMAIL": "zoe@example.org", "DATE": "2026-01-02T03:04:05Z"}
        env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

        def git(*words):
            subprocess.run(
                ["git", *words], cwd=path, env=os.environ | env, check=True, stdout=subprocess.DEVNULL
            )

        git("init", "--quiet", "--initial-branch", "main")
        for text in ("one\n", "one\ntwo — ☃\n"):
            (path / "file.txt").write_text(text, "utf-8")
            git("add", ".")
            git("commit", "--quiet", "--message", f"Write {text.split()[-1]}")
        (path / "file.txt").write_text("changed\n")
        (path / "new.txt").write_text("not yet known\n")
        return path


def doors(base: str, stdio: Endpoint, servers: Iterable[str]) -> list[Door]:
    """The ways to these servers through the Mainstay at `base` and the one over stdio."""

    def web(path: str):
        return Endpoint(url=base + path, transport="http")

    return [
        Door("/mcp", {name: web("/mcp") for name in servers}, prefixed=True, is_shared=True),
        Door("/servers/NAME/mcp", {name: web(f"/servers/{name}/mcp") for name in servers}),
        Door("mainstay mcp", {name: stdio for name in servers}, prefixed=True),
    ]


def sse_doors(base: str, servers: Iterable[str]) -> list[Door]:
    """The ways over HTTP+SSE, for clients that still speak it."""

    def web(path: str):
        return Endpoint(url=base + path, transport="sse")

    return [
        Door("/sse", {name: web("/sse") for name in servers}, prefixed=True, is_shared=True),
        Door("/servers/NAME/sse", {name: web(f"/servers/{name}/sse") for name in servers}),
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _listens(port: int) -> bool:
    # `localhost` may be ::1 to a server that names no address; a client takes either.
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def _end(process: subprocess.Popen):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            pass  # what does not end when asked is ended below
    try:
        os.killpg(process.pid, signal.SIGKILL)  # its whole group: it leads one
    except ProcessLookupError:
        pass
    process.wait()
