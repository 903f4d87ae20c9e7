"""Peers of Mainstay that say back the secrets that they are sent: an MCP server and proxy, and an authorization
server. And a collector of traces, to see what is in them.
"""

import base64
import contextlib
import http.client
import http.server
import json
import threading
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlsplit

from .web import ANSWER_SECONDS, ask

Reply = tuple[int, list[tuple[str, str]], bytes]

# Members of requests and answers of an authorization server.
SECRETS = (
    "code",
    "code_verifier",
    "device_code",
    "client_secret",
    "registration_access_token",
    "access_token",
    "refresh_token",
)
FAILING = {"broken": 500, "refused": 401, "forbidden": 403}
LARGE = 100_000
# Headers that tell nothing.
PLAIN_HEADERS = ("accept", "content-length", "content-type", "host", "mcp-method", "mcp-name", "user-agent")
OF_CONNECTION = ("connection", "content-length", "date", "keep-alive", "transfer-encoding")
# The refresh tokens and codes of a large provider have slashes, which are escaped in forms.
SLASHED = {"code": "4/", "token": "1//"}


class Peer:
    """An HTTP server that answers each request by `answer`."""

    def __init__(self):
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def serve(self):
                self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, headers, body = peer.answer(self)
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            do_GET = do_POST = do_DELETE = serve

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.origin = f"http://{self.address}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, request) -> Reply:
        raise NotImplementedError

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def as_json(value) -> Reply:
    return 200, [("content-type", "application/json")], json.dumps(value).encode()


def as_text(status: int, text: str) -> Reply:
    return status, [("content-type", "text/plain")], text.encode()


def said_back(request) -> str:
    """The values of the headers, word by word, and the query: nothing beside a word tells that it is secret."""
    told = [value for name, value in request.headers.items() if name.lower() not in PLAIN_HEADERS]
    query = parse_qs(urlsplit(request.path).query).values()
    return " and ".join(["there came", *" ".join(told).split(), *(value for values in query for value in values)])


class LoudServer(Peer):
    """An MCP server whose every answer says back the headers of its request. The name of a tool, or the last part of
    the address, says how it fails. With an authorization server it asks for a login, and takes any token.

    It is a proxy as well. It lets others be read, and with `strict` not even that.
    """

    TOOLS = ("echo", "large", "log", "error", *FAILING)

    def __init__(self, issuer: str = "", strict: bool = False):
        self.issuer, self.strict = issuer, strict
        self.heard = ""
        super().__init__()
        self.url = f"{self.origin}/mcp"

    def answer(self, request) -> Reply:
        said = said_back(request)
        self.heard += said
        address = urlsplit(request.path)
        if address.netloc not in ("", self.address):
            if self.strict or request.command != "GET":
                return as_text(503 if self.strict else 403, said)
            answer = ask("GET", request.path)
            return answer.status, [("content-type", answer.headers["content-type"] or "")], answer.text.encode()
        if "/.well-known/oauth-protected-resource" in address.path:
            return as_json({"resource": self.url, "authorization_servers": [self.issuer], "scopes_supported": ["read"]})
        if self.issuer and "authorization" not in request.headers:
            return 401, [("www-authenticate", "Bearer")], said.encode()
        if (failure := address.path.rpartition("/")[2]) in FAILING:
            return failed(failure, said)
        if request.command != "POST":
            return as_text(405, said)
        message = json.loads(request.body)
        return self.reply(message, said) if "id" in message else (202, [], b"")

    def reply(self, message: dict, said: str) -> Reply:
        method, params = message["method"], message.get("params") or {}
        tool = params.get("name") if method == "tools/call" else None
        if tool in FAILING:
            return failed(tool, said)
        answer = {"jsonrpc": "2.0", "id": message["id"], **self.outcome(method, params, tool, said)}
        if tool != "log":
            return as_json(answer)
        log = {"level": "warning", "logger": said, "data": said}
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": log}
        events = "".join(f"event: message\ndata: {json.dumps(one)}\n\n" for one in (note, answer))
        return 200, [("content-type", "text/event-stream")], events.encode()

    def outcome(self, method: str, params: dict, tool: str | None, said: str) -> dict:
        match method:
            case "initialize":
                about = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "loud", "version": said}}
                return {"result": {**about, "capabilities": {"tools": {}, "logging": {}}, "instructions": said}}
            case "tools/list":
                return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.TOOLS]}}
            case "tools/call" if tool == "error":
                return {"error": {"code": -32000, "message": said, "data": {"request": said}}}
            case "tools/call":
                text = said + "." * LARGE if tool == "large" else said
                return {"result": {"content": [{"type": "text", "text": text}], "structuredContent": {"said": said}}}
            case "ping":
                return {"result": {}}
            case _:
                return {"error": {"code": -32601, "message": f"no method {method}: {said}"}}


def failed(how: str, said: str) -> Reply:
    challenge = f'Bearer error="insufficient_scope", scope="read", error_description="{said}"'
    return FAILING[how], [("www-authenticate", challenge), ("content-type", "text/plain")], said.encode()


class LoudProvider(Peer):
    """Stands before an authorization server and sees all secrets that pass. `quote` and `garble` let it fail.

    With `auth_methods` its metadata says that clients authenticate themselves so.
    """

    def __init__(self, stage, auth_methods: tuple[str, ...] = (), **settings):
        super().__init__()
        self.auth_methods = auth_methods
        self.secrets: dict[str, set[str]] = {}
        # What happens to the next requests of a path.
        self.faults: list[tuple[str, object]] = []
        self.issuer = self.origin
        self.behind = stage.provider(issuer=self.issuer, **settings)

    def quote(self, what: str, *, path: str = "/token", plain: bool = False, status: int = 400, behind: str = ""):
        """The next request is refused, in words that have a parameter of it, the header `authorization` as it was
        sent, or the whole `body`, behind other words.
        """

        def refused(request) -> Reply:
            words = f"{behind}there is something wrong with {parameters(request)[what]}"
            if plain:
                return as_text(status, words)
            error = {"error": "invalid_request", "error_description": words}
            return status, [("content-type", "application/json")], json.dumps(error).encode()

        self.faults.append((path, refused))

    def garble(self, path: str = "/token"):
        """The next request has its effect, and its answer lacks the end of its JSON."""

        def garbled(request) -> Reply:
            status, headers, body = self.passed_on(request)
            return status, headers, body.rstrip(b"}")

        self.faults.append((path, garbled))

    def answer(self, request) -> Reply:
        path = urlsplit(request.path).path
        self.note_request(request)
        fault = next((it for it in self.faults if it[0] == path), None)
        if fault:
            self.faults.remove(fault)
            return fault[1](request)
        status, headers, body = self.passed_on(request)
        if self.auth_methods and "/.well-known/" in path and status == 200:
            return as_json({**json.loads(body), "token_endpoint_auth_methods_supported": self.auth_methods})
        return status, headers, body

    def passed_on(self, request) -> Reply:
        form = request.body
        for name, prefix in SLASHED.items():
            form = form.replace(f"{name}={prefix.replace('/', '%2F')}".encode(), f"{name}=".encode())
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OF_CONNECTION}
        port = int(self.behind.settings["port"])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
        try:
            connection.request(request.command, request.path, form or None, headers)
            response = connection.getresponse()
            status, body = response.status, response.read()
        finally:
            connection.close()
        answered = [(name, value) for name, value in response.headers.items() if name.lower() not in OF_CONNECTION]
        answered = [(name, slashed_code(value) if name.lower() == "location" else value) for name, value in answered]
        body = slashed_token(body)
        self.note_answer(dict(answered), body)
        return status, answered, body

    def note_request(self, request):
        for name, value in parameters(request).items():
            if name in SECRETS:
                self.note(name, value)
            elif name == "client_assertion":
                self.note("the signature of an assertion", value.rpartition(".")[2])

    def note_answer(self, headers: dict, body: bytes):
        location = next((value for name, value in headers.items() if name.lower() == "location"), "")
        for code in parse_qs(urlsplit(location).query).get("code", []):
            self.note("code", code)
        for name, value in members(body).items():
            if name in SECRETS and isinstance(value, str):
                self.note(name, value)

    def note(self, what: str, secret: str):
        self.secrets.setdefault(what, set()).add(secret)


def members(body: bytes) -> dict:
    with contextlib.suppress(ValueError):
        if isinstance(found := json.loads(body), dict):
            return found
    return {}


def slashed_token(body: bytes) -> bytes:
    found = members(body)
    if isinstance(token := found.get("refresh_token"), str):
        return json.dumps({**found, "refresh_token": SLASHED["token"] + token}).encode()
    return body


def slashed_code(location: str) -> str:
    return location.replace("?code=", f"?code={SLASHED['code'].replace('/', '%2F')}")


def parameters(request) -> dict[str, str]:
    """The form of a request, and what its header `authorization` says."""
    form = dict(parse_qsl(request.body.decode("utf-8", "replace")))
    form["body"] = request.body.decode("utf-8", "replace")
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme == "Basic":
        _, _, secret = base64.b64decode(credentials).decode().partition(":")
        form |= {"authorization": credentials, "client_secret": unquote_plus(secret)}
    return form


class Collector(Peer):
    """Takes traces over OTLP, or alerts. The first request is refused, in words that say back its headers."""

    def __init__(self):
        self.received, self.heard = [], ""
        super().__init__()

    def answer(self, request) -> Reply:
        said = said_back(request)
        self.heard += f"{request.path} {said}"
        self.received.append(request.body)
        return as_text(400, said) if len(self.received) == 1 else as_json({})
