"""A bare JSON-RPC client over stdio, Streamable HTTP and HTTP+SSE that keeps each message as text.

It has no model of MCP, so nothing is lost between the wire and the comparison.
"""

import http.client
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

from . import raw
from .stage import Endpoint

PATIENCE = 60  # seconds for any answer; a loaded machine is slow, a hang is for ever


class RpcError(Exception):
    """The peer answered with a JSON-RPC error; `error` is that object."""

    def __init__(self, error: dict):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.error = error


class Peer:
    """An initialized connection. Use it as a context manager."""

    def __init__(self, endpoint: Endpoint, revision: str = "2025-11-25"):
        self._changed = threading.Condition()  # guards the two below
        self._answers: dict[int, str] = {}
        self._notices: list[dict] = []
        self._next_id = 0
        transports = {"stdio": _Stdio, "http": _Http, "sse": _Sse}
        self._transport = transports[endpoint.transport](endpoint, self._receive)
        try:
            opening = {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": "outside-wire", "version": "1"},
            }
            self.greeting = json.loads(self.request("initialize", opening))
            self.revision = self.greeting["protocolVersion"]
            self._transport.opened(self.revision)
            self._send({"method": "notifications/initialized"})
        except BaseException:
            self._transport.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._transport.close()

    def request(self, method: str, params: dict | None = None) -> str:
        """Returns the literal text of `result`; raises RpcError."""
        self._next_id += 1
        message_id = self._next_id
        self._send({"id": message_id, "method": method, "params": params or {}})
        self._wait(lambda: message_id in self._answers, f"an answer to {method}")
        answer = raw.members(self._answers.pop(message_id))
        if "error" in answer:
            raise RpcError(json.loads(answer["error"]))
        return answer["result"]

    def call(self, tool: str, arguments: dict, **meta) -> str:
        params = {"name": tool, "arguments": arguments}
        return self.request("tools/call", params | ({"_meta": meta} if meta else {}))

    def listing(self, method: str, member: str) -> list[str]:
        """All pages of a list; each entry as its literal text."""
        entries, cursor = [], None
        while True:
            page = raw.members(self.request(method, {"cursor": cursor} if cursor else {}))
            entries += raw.items(page[member])
            if "nextCursor" not in page:
                return entries
            cursor = json.loads(page["nextCursor"])

    def notice(self, method: str, accept: Callable[[dict], bool] = lambda params: True) -> dict:
        """Waits for a notification and returns its params."""
        def matching():
            return [
                notice["params"]
                for notice in self._notices
                if notice["method"] == method and accept(notice["params"])
            ]
        self._wait(matching, method)
        return matching()[0]

    def forget(self):
        """Drops the notifications that came so far."""
        with self._changed:
            self._notices.clear()

    def progress(self, token) -> list[dict]:
        """What progress came for this token so far."""
        with self._changed:
            params = [n["params"] for n in self._notices if n["method"] == "notifications/progress"]
        return [known for known in params if known["progressToken"] == token]

    def _send(self, message: dict):
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        self._transport.send(body)

    def _wait(self, ready: Callable[[], object], what: str):
        with self._changed:
            if not self._changed.wait_for(ready, PATIENCE):
                raise TimeoutError(f"no {what} within {PATIENCE} s")

    def _receive(self, text: str):
        message = json.loads(text)
        if "method" not in message:
            with self._changed:
                self._answers[message.get("id")] = text
                self._changed.notify_all()
        elif "id" not in message:
            with self._changed:
                self._notices.append(message)
                self._changed.notify_all()
        elif message["method"] == "ping":
            self._send({"id": message["id"], "result": {}})
        else:
            refusal = {"code": -32601, "message": "method not found"}
            self._send({"id": message["id"], "error": refusal})


class _Stdio:
    def __init__(self, endpoint: Endpoint, receive: Callable[[str], None]):
        self._child = subprocess.Popen(
            [endpoint.command, *endpoint.args],
            env=os.environ | endpoint.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, args=(receive,), daemon=True)
        self._reader.start()

    def _read(self, receive):
        for line in self._child.stdout:
            receive(line.decode())

    def opened(self, revision: str):
        pass

    def send(self, body: str):
        self._child.stdin.write(body.encode() + b"\n")
        self._child.stdin.flush()

    def close(self):
        self._child.stdin.close()
        try:
            self._child.wait(20)  # closing stdin is the polite request to end
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()
        self._child.stdout.close()


class _Web:
    """What both HTTP transports share: a server, and one long stream read by a thread."""

    def __init__(self, endpoint: Endpoint, receive: Callable[[str], None]):
        url = urlsplit(endpoint.url)
        self._host, self._path, self._receive = url.netloc, url.path, receive
        self._stream: http.client.HTTPConnection | None = None
        self._reader: threading.Thread | None = None

    def _ask(self, method: str, path: str, headers: dict, body: str | None = None):
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE)
        connection.request(method, path, body and body.encode(), headers)
        return connection, connection.getresponse()

    def _listen(self, path: str, headers: dict, take: Callable[[str, str], None]) -> None:
        connection, response = self._ask("GET", path, headers | {"Accept": "text/event-stream"})
        if response.status != 200:  # a server may offer no stream of its own
            connection.close()
            return

        def read():
            try:
                for event, data in _events(response):
                    take(event, data)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # the stream was closed under the reader: that is how it ends

        self._stream = connection
        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def close(self):
        if self._stream and self._stream.sock:
            self._stream.sock.shutdown(socket.SHUT_RDWR)
        if self._reader:
            self._reader.join()
        if self._stream:
            self._stream.close()


class _Http(_Web):
    def __init__(self, endpoint, receive):
        super().__init__(endpoint, receive)
        self._headers: dict[str, str] = {}

    def opened(self, revision: str):
        self._headers["MCP-Protocol-Version"] = revision
        self._listen(self._path, self._headers, lambda _, data: self._receive(data))

    def send(self, body: str):
        headers = self._headers | {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        connection, response = self._ask("POST", self._path, headers, body)
        if session := response.headers["Mcp-Session-Id"]:
            self._headers["Mcp-Session-Id"] = session
        kind = response.headers.get_content_type()
        if kind == "text/event-stream":
            for _, data in _events(response):
                self._receive(data)
        elif text := response.read().decode():
            if kind != "application/json":
                raise ConnectionError(f"{response.status} {text}")
            self._receive(text)
        connection.close()

    def close(self):
        if "Mcp-Session-Id" in self._headers:
            self._ask("DELETE", self._path, self._headers)[0].close()
        super().close()


class _Sse(_Web):
    def __init__(self, endpoint, receive):
        super().__init__(endpoint, receive)
        self._inbox = ""
        self._named = threading.Event()
        self._listen(self._path, {}, self._take)
        if not self._named.wait(PATIENCE):
            raise TimeoutError("the stream named no endpoint")

    def _take(self, event: str, data: str):
        if event == "endpoint":
            self._inbox = urljoin(self._path, data)
            self._named.set()
        else:
            self._receive(data)

    def opened(self, revision: str):
        pass

    def send(self, body: str):
        headers = {"Content-Type": "application/json"}
        connection, response = self._ask("POST", self._inbox, headers, body)
        if response.status >= 300:
            raise ConnectionError(f"{response.status} {response.read().decode()}")
        connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """Server-sent events with data, as (event, data)."""
    event, data = "message", []
    while line := response.readline():
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
        elif not line.strip():
            if any(data):
                yield event, "\n".join(data)
            event, data = "message", []
