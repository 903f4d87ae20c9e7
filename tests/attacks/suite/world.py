"""A home, a daemon in it, and clients of the daemon, with the standard library alone."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b32encode
from pathlib import Path
from urllib.parse import urlsplit

HOSTILE = Path(__file__).with_name("hostile.py")
REVISION = "2025-06-18"
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
REFUSED = "mainstay_refused_calls_total"
START_SECONDS = 30
ANSWER_SECONDS = 20
GLANCE_SECONDS = 0.05
MIB = 1 << 20


def until(what: str, condition, seconds: float = ANSWER_SECONDS):
    """The first true value of a condition; fails if there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(GLANCE_SECONDS)
    raise AssertionError(f"waited in vain for {what}")


def heard(stream: socket.socket, word: str, seconds: float = ANSWER_SECONDS) -> str:
    """What comes on a stream until a word is heard, or the time is over."""
    text, end = b"", time.monotonic() + seconds
    while word.encode() not in text and (left := end - time.monotonic()) > 0:
        stream.settimeout(left)
        try:
            more = stream.recv(65536)
        except TimeoutError:
            break
        if not more:
            break
        text += more
    return text.decode("utf-8", "replace")


def cid(content: bytes) -> str:
    """The identifier of some content: CIDv1, raw, SHA-256, base32."""
    digest = b"\x01\x55\x12\x20" + hashlib.sha256(content).digest()
    return "b" + b32encode(digest).decode().lower().rstrip("=")


class Skipped(Exception):
    """An attack cannot be made here; the message says why."""


class Home:
    """A home folder of its own, and what was started in it."""

    def __init__(self, mainstay: Path, path: Path):
        self.mainstay = mainstay
        self.path = path
        self.state = path / "state"
        self.closing = contextlib.ExitStack()
        self.environment = {
            "HOME": str(path),
            "MAINSTAY_HOME": str(self.state),
            "PATH": os.environ["PATH"],
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        }

    def close(self):
        self.closing.close()

    def hostile(self, name: str, **script) -> dict:
        """The entry of a server that does what its script says; it writes down what it receives."""
        path = self.path / f"{name}.script.json"
        path.write_text(json.dumps(script))
        return {"command": sys.executable, "args": [str(HOSTILE), str(path), str(self.record_of(name))]}

    def record_of(self, name: str) -> Path:
        return self.path / f"{name}.received"

    def received(self, name: str, method: str = "") -> list[dict]:
        """The messages that a hostile server has received."""
        record = self.record_of(name)
        lines = record.read_text().splitlines() if record.exists() else []
        return [it for it in map(json.loads, lines) if it.get("method", "").startswith(method)]

    def tokens(self, *names: str) -> list[str]:
        """Makes a client's token for each of these names."""
        made = [self.run("token", "add", name) for name in names]
        return [next(word for word in it.stdout.decode().split() if word.startswith("mst_")) for it in made]

    def kept(self) -> bytes:
        """Everything in the state directory but the versions of the configuration, which have its secrets."""
        files = (path for path in self.state.rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files if "config-history" not in path.parts)

    def configure(self, servers: dict, **settings) -> Path:
        path = self.path / "servers.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"mcpServers": servers, **settings}))
        fresh.rename(path)
        return path

    def run(self, *arguments, seconds: float = START_SECONDS) -> subprocess.CompletedProcess:
        """Runs a command to its end, within a time limit."""
        command = [self.mainstay, *map(str, arguments)]
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment,
            cwd=self.path,
            timeout=seconds,
        )

    def run_in_terminal(self, *arguments, seconds: float = START_SECONDS) -> bytes:
        """What a command writes to a terminal, stdout and stderr together."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [self.mainstay, *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self.environment,
            cwd=self.path,
            start_new_session=True,
        )
        os.close(theirs)
        shown, end = b"", time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                readable, _, _ = select.select([ours], [], [], GLANCE_SECONDS)
                try:
                    more = os.read(ours, 65536) if readable else b""
                except OSError:  # Every other end is closed.
                    break
                shown += more
                if not readable and process.poll() is not None:
                    break
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(START_SECONDS)
            os.close(ours)
        return shown

    def serve(self, servers: dict, *flags, **settings) -> "Daemon":
        """Starts a daemon for these servers."""
        return self.start("--config", self.configure(servers, **settings), *flags)

    def start(self, *flags, **how) -> "Daemon":
        daemon = Daemon(self, *flags, **how)
        self.closing.callback(daemon.stop)
        return daemon

    def listener(self) -> "Listener":
        listener = Listener()
        self.closing.callback(listener.close)
        return listener


class Daemon:
    """A running `mainstay serve`."""

    def __init__(
        self, home: Home, *flags, start_seconds: float = START_SECONDS, listen: str = "127.0.0.1:0"
    ):
        self.home = home
        # The address that requests come from, if it matters.
        self.source: tuple[str, int] | None = None
        command = [home.mainstay, "serve", "--json", "--listen", listen, *map(str, flags)]
        self.log = home.path / "daemon.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=home.environment,
                cwd=home.path,
            )
        readable, _, _ = select.select([self.process.stdout], [], [], start_seconds)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            # With what it started, for that may be what hangs.
            family = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            with contextlib.suppress(OSError):
                for child in family.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon did not start: {self.log.read_text()}")
        started = json.loads(line)
        self.url, self.pid = started["url"], started["pid"]
        self.address = urlsplit(self.url).netloc

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                self.process.kill()
                self.process.wait()

    @property
    def token(self) -> str:
        return (self.home.state / "token").read_text().strip()

    def memory(self) -> int:
        """The bytes that the daemon has in memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def ask(self, method: str, path: str, body=None, headers=None, seconds: float = ANSWER_SECONDS):
        """One request on a connection of its own: status, headers and text."""
        connection = http.client.HTTPConnection(self.address, timeout=seconds, source_address=self.source)
        try:
            text = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, text, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def rest(self, method: str, path: str, body=None):
        """One request with the control token: status and JSON."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        status, _, text = self.ask(method, path, body, headers)
        return status, json.loads(text) if text else None

    def raw(self, request: bytes, seconds: float = ANSWER_SECONDS) -> bytes:
        """What is answered to these bytes."""
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=seconds) as stream:
            # Not closed for writing: a client that hangs up is not answered.
            stream.sendall(request)
            answer = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                while more := stream.recv(65536):
                    answer += more
            return answer

    def server(self, name: str) -> dict | None:
        """How a server is."""
        _, listed = self.rest("GET", "/api/servers")
        return next((it for it in listed["servers"] if it["name"] == name), None)

    def until_status(self, name: str, *wanted: str) -> dict:
        def reached():
            server = self.server(name)
            return server if server and server["status"] in wanted else None

        return until(f"{name} to be {' or '.join(wanted)}", reached)

    def client(self, path: str = "/mcp", token: str | None = None, **more) -> "Client":
        return Client(self, path, token, **more)

    def modern(self, path: str, token: str | None, method: str, params: dict) -> dict:
        """The answer to a client of 2026-07-28, which has no session."""
        about = {
            "protocolVersion": MODERN,
            "clientInfo": {"name": "attacker", "version": "1"},
            "clientCapabilities": {"extensions": {f"{PREFIX}tasks": {}}, "elicitation": {"form": {}}},
        }
        params = {**params, "_meta": {PREFIX + name: value for name, value in about.items()}}
        client = Client(self, path, token, begin=False)
        client.headers |= {"mcp-protocol-version": MODERN, "mcp-method": method}
        if name := params.get("name"):
            client.headers["mcp-name"] = name
        return client.ask(method, params)

    def stream(self, method: str, path: str, headers: dict, body: str = "") -> socket.socket:
        """A request on a connection that stays open."""
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.address}", *(f"{k}: {v}" for k, v in headers.items())]
        host, port = self.address.rsplit(":", 1)
        stream = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS)
        if body:
            lines.append(f"content-length: {len(body)}")
        stream.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        return stream

    def refusals(self) -> tuple[int, int]:
        """How many calls were refused: by the records, and by the figures."""
        _, listed = self.rest("GET", "/api/call-records?status=refused&limit=1")
        figures = [line for line in self.ask("GET", "/metrics")[2].splitlines() if line.startswith(REFUSED)]
        return listed["total_count"], sum(int(float(line.split()[-1])) for line in figures)


class Peak:
    """The most memory that a daemon has had meanwhile."""

    def __init__(self, daemon: Daemon):
        self.daemon, self.before = daemon, daemon.memory()
        self.most = self.before
        self.over = threading.Event()
        self.watching = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, self.daemon.memory())

    def __enter__(self):
        self.watching.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.watching.join()

    def assert_grew_less_than(self, most: int):
        grown = self.most - self.before
        assert grown < most, f"{grown // MIB} MiB more"


class Client:
    """An MCP session over Streamable HTTP."""

    def __init__(self, daemon: Daemon, path: str, token: str | None, info: dict | None = None, begin: bool = True):
        self.daemon, self.path = daemon, path
        self.headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
        }
        if token:
            self.headers["authorization"] = f"Bearer {token}"
        self.began = self.begin(info) if begin else None

    def begin(self, info: dict | None = None) -> dict:
        params = {
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": info or {"name": "attacker", "version": "1"},
        }
        answer = self.ask("initialize", params)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def post(self, message) -> tuple[int, str]:
        status, headers, text = self.daemon.ask("POST", self.path, message, self.headers)
        if session := headers.get("mcp-session-id"):
            self.headers["mcp-session-id"] = session
        return status, text

    def ask(self, method: str, params: dict | None = None) -> dict:
        """The response to a request, or what stands for one where there is none."""
        status, text = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})
        # Not `splitlines`: it takes U+2028 and U+0085 for ends of lines, and servers may say them.
        for line in text.replace("\r", "\n").split("\n"):
            data = line.removeprefix("data:").strip()
            if data.startswith("{"):
                message = json.loads(data)
                if message.get("id") == 1 or "error" in message:
                    return message
        return {"error": {"code": status, "message": text}}

    def call(self, tool: str, arguments: dict | None = None) -> dict:
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}})

    def names(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["result"]["tools"]]

    def end(self) -> int:
        return self.daemon.ask("DELETE", self.path, None, self.headers)[0]


class Listener:
    """An HTTP server that notes the requests it gets, and answers each by `answer`."""

    def __init__(self):
        self.requests: list[tuple[str, str, dict]] = []
        self.answer = lambda _: (200, {"content-type": "application/json"}, b"{}")
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def serve(self):
                length = int(self.headers.get("content-length") or 0)
                self.body = self.rfile.read(length)
                listener.requests.append((self.command, self.path, dict(self.headers.items())))
                status, headers, body = listener.answer(self)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            do_GET = do_POST = do_DELETE = do_PUT = serve

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def url(self, path: str = "/mcp") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def heard(self, words: str) -> bool:
        """Whether a header of some request contains these words."""
        return any(words in value for _, _, headers in self.requests for value in headers.values())

    def close(self):
        self.server.shutdown()
        self.server.server_close()
