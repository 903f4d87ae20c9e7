"""The processes of this folder: authorization servers and MCP servers on loopback, which a test starts, ends and
starts again at the same address.
"""

import contextlib
import json
import select
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from urllib.parse import urlsplit

from .web import ask

HERE = Path(__file__).resolve().parent.parent
PYTHON = HERE / ".venv" / "bin" / "python"
START_SECONDS = 60
STOP_SECONDS = 15

# The script of a person is not a module by its name.
sys.dont_write_bytecode = True
person = SourceFileLoader("person", str(HERE / "person")).load_module()


def flags(settings: dict) -> list[str]:
    """Keyword arguments as flags of a command."""
    words = []
    for name, value in settings.items():
        name = name.replace("_", "-")
        if value is True:
            words.append(f"--{name}")
        elif value is False:
            words.append(f"--no-{name}")
        else:
            words += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return words


class Process:
    """A program whose first line of output says where it is."""

    def __init__(self, command: list, settings: dict, log: Path):
        self.command, self.settings, self.log = command, settings, log
        self.process: subprocess.Popen | None = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *flags(self.settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.log.parent,
            )
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            self.kill()
            raise AssertionError(f"{self.command[-1]} did not start: {self.log.read_text()[-2000:]}")
        self.started(json.loads(line))

    def started(self, line: dict):
        raise NotImplementedError

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()

    def kill(self):
        """As a crash: SIGKILL."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        self.start()


class Provider(Process):
    """An authorization server with its control."""

    issuer = control = ""

    def started(self, line: dict):
        self.issuer, self.control = line["issuer"], line["control"]
        # The same addresses after a restart.
        self.settings["port"] = str(line.get("port") or urlsplit(self.issuer).port)
        self.settings["control_port"] = str(urlsplit(self.control).port)

    def report(self) -> dict:
        return ask("GET", self.control).json

    def act(self, action: str, **values) -> dict:
        answer = ask("POST", f"{self.control}/{action}", body=values)
        assert answer.status == 200, f"{action}: {answer.text}"
        return answer.json

    def fault(self, kind: str, **values):
        """By default of token requests. See provider-node/faults.mjs."""
        self.act("faults", **{"kind": kind, "path": "/token", **values})

    def token_requests(self, grant: str | None = None) -> list[dict]:
        return [request for request in self.report()["requests"] if grant in (None, request["grant"])]

    def refreshes(self) -> list[dict]:
        return self.token_requests("refresh_token")


class Server(Process):
    """An MCP server that asks for a login."""

    url = ""

    def started(self, line: dict):
        self.url = line["url"]
        self.settings["port"] = str(urlsplit(self.url).port)

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    def counts(self) -> dict:
        """Of server-node only: answers by status, calls by tool."""
        return ask("GET", f"{self.origin}/counts").json


class Stage:
    """What a test has started, which ends with it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.closing = contextlib.ExitStack()
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing.close()

    def run(self, kind, command: list, settings: dict):
        self.number += 1
        process = kind(command, settings, self.folder / f"{self.number}-{Path(command[-1]).stem}.log")
        self.closing.callback(process.stop)
        return process

    def state(self) -> str:
        """A file for the state of an authorization server that is restarted."""
        return str(self.folder / f"{self.number}.state")

    def provider(self, language: str = "node", /, **settings) -> Provider:
        if language == "node":
            return self.run(Provider, ["node", HERE / "provider-node" / "provider.mjs"], settings)
        return self.run(Provider, [PYTHON, HERE / "provider-python" / "provider.py"], settings)

    def server(self, provider: Provider | None, language: str = "node", /, **settings) -> Server:
        if provider:
            settings = {"provider": provider.issuer, **settings}
        if language == "node":
            return self.run(Server, ["node", HERE / "server-node" / "server.mjs"], settings)
        return self.run(Server, [PYTHON, HERE / "server-python" / "server.py"], settings)

    def server_that_is_its_provider(self, port: int, **settings) -> tuple[Provider, Server]:
        """A server of 2025-03-26: its origin is the authorization server, and no metadata of a resource says so."""
        origin = f"http://127.0.0.1:{port}"
        provider = self.provider(issuer=origin, resources="none", **settings)
        behind = f"http://127.0.0.1:{provider.settings['port']}"
        server = self.server(None, port=str(port), provider=origin, prm=False, proxy=behind, audience="")
        return provider, server
