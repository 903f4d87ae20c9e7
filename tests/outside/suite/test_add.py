"""`mainstay add` and `mainstay search` with real packages of npm and PyPI, which a registry of our own lists."""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from .check import Check
from .stage import MARK, VENV, Door, Stage

PATIENCE = 300  # seconds; the packages are downloaded


def server(name: str, kind: str, package: str, version: str) -> dict:
    return {
        "server": {
            "name": name,
            "description": f"{package} of {kind}",
            "version": version,
            "packages": [
                {
                    "registryType": kind,
                    "identifier": package,
                    "version": version,
                    "transport": {"type": "stdio"},
                }
            ],
        },
        "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": True}},
    }


SERVERS = [
    server("io.github.test/memory", "npm", "@modelcontextprotocol/server-memory", "2026.8.31"),
    server("io.github.test/time", "pypi", "mcp-server-time", "2026.10.10"),
]


class Registry(BaseHTTPRequestHandler):
    def do_GET(self):
        path = urlsplit(self.path).path.removeprefix("/v0.1/")
        if path == "servers":
            answer = {"servers": SERVERS, "metadata": {"count": len(SERVERS)}}
        else:
            name = unquote(path.split("/")[1])
            answer = next(server for server in SERVERS if server["server"]["name"] == name)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Add(Check):
    client = "mainstay add"

    def run_mainstay(self, *words: str) -> str:
        home = self.stage.folder / "added"
        home.mkdir(exist_ok=True)
        env = os.environ | {
            "MAINSTAY_HOME": str(home),
            "MAINSTAY_REGISTRY": self.registry,
            "PATH": f"{VENV}:{os.environ['PATH']}",
            MARK: self.stage.mark,
        }
        done = subprocess.run(
            [self.stage.mainstay, *words],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(0, done.returncode, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_packages_of_npm_and_pypi_run(self):
        with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as registry:
            self.registry = f"http://127.0.0.1:{registry.server_port}"
            threading.Thread(target=registry.serve_forever, daemon=True).start()
            try:
                found = json.loads(self.run_mainstay("search", "--json", "test"))
                self.assertEqual(["memory", "time"], [it["name"].split("/")[1] for it in found["servers"]])
                added = json.loads(self.run_mainstay("add", "--json", "io.github.test/memory"))
                self.assertIn("create_entities", added["tools"])
                added = json.loads(self.run_mainstay("add", "--json", "io.github.test/time"))
                self.assertIn("get_current_time", added["tools"])
            finally:
                registry.shutdown()
        config = json.loads((self.stage.folder / "added" / "config.json").read_text())
        self.assertEqual(
            [["-y", "@modelcontextprotocol/server-memory@2026.8.31"], ["mcp-server-time@2026.10.10"]],
            [entry["args"] for entry in config["mcpServers"].values()],
        )


def tests(stage: Stage):
    if stage.mainstay:
        yield Add("test_packages_of_npm_and_pypi_run", stage, Door("its commands", {}))
