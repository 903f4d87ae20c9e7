"""A small MCP client over Streamable HTTP, of either era, for the driver.

It accepts every question with what the question proposes: defaults, one model's answer, one root.
"""

import base64
import http.client
import itertools
import json
import re
import threading
import time
from collections import namedtuple
from urllib.parse import urlsplit

# The longest silence of a server; the scenarios' own waits are below a second.
PATIENCE_SECONDS = 15
# Until a server says `retry`.
RETRY_MS = 1_000
# A server that asks more often than this asks for ever.
MAX_ROUNDS = 10

FIRST_MODERN = "2026-07-28"
ME = {"name": "conformance-driver", "version": "1.0.0"}
ABILITIES = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022

# Where the value of `Mcp-Name` is.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Event = namedtuple("Event", "id retry message")


class Refused(Exception):
    """A JSON-RPC error, or an answer that is none."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")
        self.data = error.get("data") or {}


def connect(url, revision, careful):
    """A client of `revision`; a careful one leaves out tools that it must not call."""
    era = Modern if revision >= FIRST_MODERN else Legacy
    return era(url, revision, careful)


class Client:
    """What both eras have in common."""

    def __init__(self, url, revision, careful):
        parts = urlsplit(url)
        self.host, self.path = parts.netloc, parts.path or "/"
        self.revision, self.careful = revision, careful
        self.ids = itertools.count(1)
        self.schemas = {}

    def send(self, method, body, headers):
        """The response to one HTTP request, unread."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_SECONDS)
        accept = "application/json, text/event-stream" if body else "text/event-stream"
        headers = {"Accept": accept, "Content-Type": "application/json", **headers}
        connection.request(method, self.path, json.dumps(body).encode() if body else None, headers)
        return connection.getresponse()

    def all(self, method, key):
        """Every item of a list, page by page."""
        items, cursor = [], None
        while True:
            page = self.request(method, {"cursor": cursor} if cursor else {})
            items += page[key]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    def tools(self):
        tools = self.all("tools/list", "tools")
        if self.careful:
            tools = [tool for tool in tools if has_valid_headers(tool["inputSchema"])]
        self.schemas = {tool["name"]: tool["inputSchema"] for tool in tools}
        return tools

    def call(self, name, arguments=None):
        return self.request("tools/call", {"name": name, "arguments": arguments or {}})


class Legacy(Client):
    """Up to 2025-11-25: a session, whose server asks by requests of its own."""

    def __init__(self, url, revision, careful):
        super().__init__(url, revision, careful)
        self.session = {}
        offer = {"protocolVersion": revision, "capabilities": ABILITIES, "clientInfo": ME}
        greeting = self.request("initialize", offer)
        self.capabilities = greeting["capabilities"]
        self.session["MCP-Protocol-Version"] = greeting["protocolVersion"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).read()
        # What the server asks beside any call; it dies with the driver.
        threading.Thread(target=self.listen, daemon=True).start()

    def post(self, message):
        response = self.send("POST", message, self.session)
        session_id = response.headers["Mcp-Session-Id"]
        if session_id:
            self.session["Mcp-Session-Id"] = session_id
        return response

    def listen(self):
        response = self.send("GET", None, self.session)
        if response.status == 200:
            for event in events(response):
                self.serve(event.message)

    def request(self, method, params):
        """The result; a stream that ends before it is resumed when the server said."""
        number = next(self.ids)
        response = self.post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        last_id, retry = None, RETRY_MS
        while True:
            for event in events(response):
                last_id, retry = event.id or last_id, event.retry or retry
                if not self.serve(event.message) and event.message and event.message.get("id") == number:
                    return result(event.message)
            if last_id is None:
                raise Refused({"code": response.status, "message": f"no answer to {method}"})
            time.sleep(retry / 1000)
            response = self.send("GET", None, {**self.session, "Last-Event-ID": last_id})

    def serve(self, message):
        """Answers a request of the server; whether the message was the server's own."""
        if not message or "method" not in message:
            return False
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"]}
            answer = answer_to(message)
            if answer is None:
                reply["error"] = {"code": METHOD_NOT_FOUND, "message": message["method"]}
            else:
                reply["result"] = answer
            self.post(reply).read()
        return True


class Modern(Client):
    """2026-07-28: each request for itself; questions are results, answered by a retry."""

    def __init__(self, url, revision, careful):
        super().__init__(url, revision, careful)
        self.capabilities = self.request("server/discover", {})["capabilities"]

    def request(self, method, params, meanwhile=lambda: None):
        """The complete result, after however many rounds of questions; `meanwhile` runs between two."""
        extra = {}
        for _ in range(MAX_ROUNDS):
            answer = self.round(method, {**params, **extra})
            if answer.get("resultType", "complete") != "input_required":
                return answer
            meanwhile()
            questions = answer.get("inputRequests") or {}
            extra = {"inputResponses": {key: answer_to(question) for key, question in questions.items()}}
            if "requestState" in answer:
                extra["requestState"] = answer["requestState"]
        raise Refused({"code": None, "message": f"{method} asked for more than {MAX_ROUNDS} rounds"})

    def round(self, method, params):
        try:
            return self.exchange(method, params)
        except Refused as refused:
            if refused.code != UNSUPPORTED_VERSION or self.revision not in refused.data.get("supported", []):
                raise
            return self.exchange(method, params)

    def exchange(self, method, params):
        number = next(self.ids)
        meta = {"protocolVersion": self.revision, "clientInfo": ME, "clientCapabilities": ABILITIES}
        params = {**params, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
        headers = {"MCP-Protocol-Version": self.revision, "Mcp-Method": method}
        if method in NAMED_BY:
            headers["Mcp-Name"] = encoded(params[NAMED_BY[method]])
        if method == "tools/call":
            headers |= mirrored(self.schemas.get(params["name"], {}), params["arguments"])
        response = self.send("POST", {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, headers)
        for event in events(response):
            if event.message and event.message.get("id") == number:
                return result(event.message)
        raise Refused({"code": response.status, "message": f"no answer to {method}"})


def result(message):
    if "error" in message:
        raise Refused(message["error"])
    return message["result"]


def events(response):
    """The messages of a response, one or a stream of them; a comment or a priming event has none."""
    if response.headers.get_content_type() != "text/event-stream":
        body = response.read()
        if body and response.headers.get_content_type() == "application/json":
            yield Event(None, None, json.loads(body))
        return
    fields = {}
    for raw in iter(response.readline, b""):
        name, _, value = raw.decode().rstrip("\r\n").partition(":")
        if name:
            fields[name] = fields[name] + "\n" + value if name == "data" and "data" in fields else value.strip()
        elif fields:
            data = fields.get("data")
            yield Event(fields.get("id"), int(fields.get("retry", 0)), json.loads(data) if data else None)
            fields = {}


def answer_to(question):
    """What a willing user, a model and a file system say; None: no such question."""
    params = question.get("params") or {}
    match question["method"]:
        case "elicitation/create":
            properties = params.get("requestedSchema", {}).get("properties", {})
            content = {name: proposed(schema) for name, schema in properties.items()}
            return {"action": "accept", "content": content}
        case "sampling/createMessage":
            text = {"type": "text", "text": "Paris"}
            return {"role": "assistant", "content": text, "model": "none", "stopReason": "endTurn"}
        case "roots/list":
            return {"roots": [{"uri": "file:///workspace", "name": "workspace"}]}
        case "ping":
            return {}
    return None


def proposed(schema):
    fallback = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": []}
    return schema.get("default", (schema.get("enum") or [fallback.get(schema.get("type"))])[0])


# Headers from arguments (SEP-2243)


def annotated(schema):
    """The properties with `x-mcp-header`: (property, its type, header's name)."""
    properties = schema.get("properties", {}).items()
    return [(name, each.get("type"), each["x-mcp-header"]) for name, each in properties if "x-mcp-header" in each]


def has_valid_headers(schema):
    headers = annotated(schema)
    names = [name.lower() for _, _, name in headers]
    return len(set(names)) == len(names) and all(
        kind in ("string", "integer", "boolean") and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
        for _, kind, name in headers
    )


def mirrored(schema, arguments):
    values = {header: arguments.get(name) for name, _, header in annotated(schema)}
    return {f"Mcp-Param-{header}": encoded(value) for header, value in values.items() if value is not None}


def encoded(value):
    text = value if isinstance(value, str) else json.dumps(value)
    if re.fullmatch(r"([!-~]([ -~]*[!-~])?)?", text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
