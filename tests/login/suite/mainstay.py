"""Mainstay between clients and the MCP servers of a test: its daemon, its commands, and people who log in."""

import json
import os
import re
import signal
import subprocess
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path

from .cases import StagedTest
from .stage import HERE, person
from .web import ask, free_port, until

# The home, the daemon and the MCP client of the attacks.
world = SourceFileLoader("world", str(HERE.parent / "attacks" / "suite" / "world.py")).load_module()

URL = re.compile(r"https?://\S+")
COMMAND_SECONDS = 60


class Mainstay:
    """A daemon that keeps its address, in a home of its own."""

    def __init__(self, binary: Path, folder: Path):
        folder.mkdir()
        self.home = world.Home(binary, folder)
        self.address = f"127.0.0.1:{free_port()}"
        self.daemon = None

    def serve(self, servers: dict, **settings):
        self.home.configure(servers, **settings)
        self.start()

    def start(self):
        config = self.home.path / "servers.json"
        self.daemon = self.home.start("--config", config, listen=self.address)

    def kill(self):
        os.kill(self.daemon.pid, signal.SIGKILL)
        self.daemon.process.wait(COMMAND_SECONDS)

    def restart(self):
        self.kill()
        self.start()

    def rest(self, method: str, path: str, body=None):
        """The answer of a request that has to succeed."""
        status, answer = self.daemon.rest(method, path, body)
        assert status == 200, f"{method} {path}: {status} {answer}"
        return answer

    def login(self, name: str) -> dict:
        return self.rest("GET", f"/api/servers/{name}/login")

    def begin(self, name: str, /, **body) -> dict:
        return self.rest("POST", f"/api/servers/{name}/login", body)

    def log_in(self, name: str, /, **browser):
        """A person logs in with a browser on this machine, and the server is there."""
        begun = self.begin(name)
        callback = person.Browser(**browser).log_in(begun["authorizationUrl"])
        answer = ask("GET", callback)
        assert answer.status == 200, answer.text
        self.daemon.until_status(name, "connected")

    def server(self, name: str) -> dict:
        return self.daemon.server(name)

    def call(self, name: str, tool: str = "echo", /, **arguments) -> str:
        """The text of a tool's result, by a client of its own."""
        return text(self.daemon.client().call(f"{name}__{tool}", arguments or None))

    def echo(self, name: str, said: str = "hello"):
        answer = self.call(name, text=said)
        assert answer == said, answer

    def run(self, *arguments) -> subprocess.CompletedProcess:
        return self.home.run(*arguments, seconds=COMMAND_SECONDS)

    def close(self):
        self.home.close()


def text(answer: dict) -> str:
    """The text of a result, or what stands for it where a call fails."""
    if "error" in answer:
        return json.dumps(answer["error"])
    return answer["result"]["content"][0]["text"]


class Conversation:
    """A command that a person reads and answers."""

    def __init__(self, mainstay: Mainstay, *arguments):
        self.process = subprocess.Popen(
            [mainstay.home.mainstay, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=mainstay.home.environment,
            cwd=mainstay.home.path,
            text=True,
        )
        self.shown = ""
        self.reading = threading.Thread(target=self.read, daemon=True)
        self.reading.start()

    def read(self):
        while more := self.process.stdout.read(1):
            self.shown += more

    def url(self, part: str) -> str:
        """The first address with this part that is shown whole."""

        def shown():
            complete = self.shown[: self.shown.rfind("\n") + 1]
            return next((url for url in URL.findall(complete) if part in url), None)

        return until(f"an address with {part}", shown)

    def say(self, line: str):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        status = self.process.wait(COMMAND_SECONDS)
        self.reading.join(COMMAND_SECONDS)
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reading.join(COMMAND_SECONDS)
        self.process.stdin.close()
        self.process.stdout.close()


class MainstayTest(StagedTest):
    binary: Path

    def setUp(self):
        super().setUp()
        self.mainstay = Mainstay(self.binary, self.folder / "home")
        self.addCleanup(self.mainstay.close)

    def serve(self, server, name: str = "remote", **entry):
        self.mainstay.serve({name: {"url": server.url, **entry}})

    def converse(self, *arguments) -> Conversation:
        conversation = Conversation(self.mainstay, *arguments)
        self.addCleanup(conversation.close)
        return conversation

    def outcomes(self, provider, grant: str) -> list[str]:
        return [request["outcome"] for request in provider.token_requests(grant)]

    def assert_one_use_of_each(self, requests: list[dict]):
        """No refresh token was presented twice."""
        presented = [request["presented"] for request in requests]
        self.assertEqual(len(presented), len(set(presented)), presented)
