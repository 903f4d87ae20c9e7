"""Foreign servers that speak one era only, and foreign clients that speak the other: who they are, and their runs.

All servers are the same play, all clients follow the same script (the programs in `eras/`), so
that what a client must see does not depend on who is at the other end.
"""

import json
import os
import subprocess
import threading
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Unpack

from .stage import HERE, MARK, VENV, Door, Endpoint, Stage, doors, free_port

PATIENCE = 180  # seconds for one run of a client; each of its steps has a shorter limit of its own
VENV_2 = HERE / ".venv-2" / "bin"
PLAY = HERE / "eras"

MODERN, LEGACY = "2026-07-28", "2025-11-25"


@dataclass(frozen=True)
class Backend:
    """A server of one revision, over one transport."""

    name: str
    label: str
    revision: str
    program: tuple[str, ...]
    over_http: bool


@dataclass(frozen=True)
class Client:
    """A client at one revision. Those of 2.x speak both eras: by default they ask which it is.

    One that is `slow` to start meets one server of the other era, the rest meet all.
    """

    label: str
    revision: str
    program: tuple[str, ...]
    slow: bool = False

    @property
    def title(self) -> str:
        return f"{self.label} at {self.revision}"


def _python(venv, path: str) -> tuple[str, ...]:
    return str(venv / "python"), "-W", "ignore::DeprecationWarning", str(PLAY / path)


def _node(path: str) -> tuple[str, ...]:
    return "node", str(PLAY / path)


BACKENDS = [
    Backend("new-python", "PyPI mcp 2, HTTP", MODERN, _python(VENV_2, "servers/mcp2.py"), True),
    Backend("new-node", "npm server 2, stdio", MODERN, _node("servers/server2.mjs"), False),
    Backend("old-python", "PyPI mcp 1, stdio", LEGACY, _python(VENV, "servers/mcp1.py"), False),
    Backend("old-node", "npm sdk 1, HTTP", LEGACY, _node("servers/sdk1.mjs"), True),
]

_MCP_2 = _python(VENV_2, "clients/mcp2.py")
_FASTMCP = _python(VENV_2, "clients/fastmcp4.py")
_CLIENT_2 = _node("clients/client2.mjs")
_INSPECTOR = _python(VENV_2, "clients/inspector.py")
CLIENTS = [
    Client("PyPI mcp 2", MODERN, _MCP_2),
    Client("FastMCP 4", MODERN, _FASTMCP, slow=True),
    Client("npm client 2", MODERN, _CLIENT_2),
    Client("Inspector 2", MODERN, _INSPECTOR, slow=True),
    Client("PyPI mcp 1", LEGACY, _python(VENV, "clients/mcp1.py")),
    Client("PyPI mcp 2", LEGACY, _MCP_2),
    Client("FastMCP 4", LEGACY, _FASTMCP, slow=True),
    Client("npm sdk 1", LEGACY, _node("clients/sdk1.mjs")),
    Client("npm client 2", LEGACY, _CLIENT_2),
    Client("Inspector 2", LEGACY, _INSPECTOR, slow=True),
]

Run = tuple[Client, Backend, Door]
Seen = dict[str, dict]  # by step: {"seen": …} or {"error": …}


class Eras:
    """The backends, a Mainstay in front of them, and what each client sees of them.

    The runs of one backend follow each other, since a server of the old era cannot always tell
    whose call its question belongs to; those of different backends go side by side.
    """

    def __init__(self, stage: Stage):
        self.stage = stage
        self._runs: dict[Run, Future[Seen]] = {}
        self._lanes = {backend: ThreadPoolExecutor(1) for backend in BACKENDS}
        self._children: set[subprocess.Popen] = set()
        self._lock = threading.Lock()  # guards the children, and that none is started after the end
        self._over = False
        endpoints = {backend.name: self._endpoint(backend) for backend in BACKENDS}
        self.direct = Door("itself", endpoints)
        self.doors = {MODERN: [], LEGACY: []}  # by the backends' revision
        if stage.mainstay:
            entries = {name: endpoint.entry() for name, endpoint in endpoints.items()}
            base = stage.serve("eras", entries)
            for revision, found in self.doors.items():
                names = [backend.name for backend in BACKENDS if backend.revision == revision]
                stdio = stage.over_stdio(f"eras-{revision}", {name: entries[name] for name in names})
                found += doors(base, stdio, names)
        stage.on_exit(self.close)

    def expect(self, *run: Unpack[Run]):
        """Has this run made as soon as its backend is free, while other tests go on."""
        self._runs[run] = self._lanes[run[1]].submit(self._run, *run)

    def seen(self, *run: Unpack[Run]) -> Seen:
        return self._runs[run].result()

    def close(self):
        with self._lock:
            self._over = True
            for child in self._children:
                child.kill()
        for lane in self._lanes.values():
            lane.shutdown(cancel_futures=True)

    def _endpoint(self, backend: Backend) -> Endpoint:
        command, *arguments = *backend.program, backend.name
        if not backend.over_http:
            return Endpoint(command, tuple(arguments), {MARK: self.stage.mark})
        port = free_port()
        self.stage.launch(backend.name, [command, *arguments, port], port)
        return Endpoint(url=f"http://127.0.0.1:{port}/mcp", transport="http")

    def _run(self, client: Client, backend: Backend, door: Door) -> Seen:
        endpoint = door.endpoints[backend.name]
        with self._lock:
            launcher = self.stage.launcher(endpoint) if endpoint.command else ""
        job = {
            "server": backend.name,
            "prefix": door.name(backend.name, ""),
            "legacy": client.revision == LEGACY,
            "id": uuid.uuid4().hex[:8],  # short, as names are: it becomes part of one
            "url": endpoint.url,
            "command": [endpoint.command, *endpoint.args],
            "env": {"PATH": os.environ["PATH"]} | endpoint.env,
            "launcher": launcher,
        }
        log = self.stage.folder / f"client-{job['id']}.log"
        with log.open("wb") as stderr:
            with self._lock:
                if self._over:
                    return {}
                child = subprocess.Popen(
                    [*client.program, json.dumps(job)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                    cwd=self.stage.folder,
                )
                self._children.add(child)
            try:
                output, _ = child.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                output, _ = child.communicate()
            finally:
                with self._lock:
                    self._children.discard(child)
        seen = {}
        for line in output.split("\n"):
            with suppress(json.JSONDecodeError):
                step = json.loads(line)
                seen[step.pop("step")] = step
        if child.returncode:
            end = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
            seen["end"] = {"error": f"exit code {child.returncode}\n{end}"}
        return seen
