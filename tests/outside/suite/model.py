"""A stand-in for a language model: it calls the tools it is told to, keeps what it is shown, and ends.

It speaks just enough of four interfaces (Anthropic messages, OpenAI responses and chat completions,
Gemini contents) for the agents that are tested. Nothing about it is clever: whoever asks with tools
gets the next call of its play, whoever asks without gets a word.
"""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .cases import Call

END = "That is all."


@dataclass
class Play:
    """What a client's model does, and what it saw of the client's tools."""

    calls: list[Call]
    # How the client spells a tool of the server's; it gives all that the client offers and returns one.
    pick: Callable[[list[str], str], str | None]
    offered: dict[str, dict] = field(default_factory=dict)  # by the client's name of it
    results: list[object] = field(default_factory=list)  # in order of the calls
    strange: list[str] = field(default_factory=list)  # what it does not understand
    said: set[str] = field(default_factory=set)  # every text of the conversations

    def hear(self, part: object):
        """Keeps the texts of a part of a conversation."""
        match part:
            case str():
                self.said.add(part)
            case list():
                for inner in part:
                    self.hear(inner)
            case dict():
                self.hear(list(part.values()))

    def next(self, offered: dict[str, dict], results: list[object]) -> tuple[str, Call] | None:
        """The call to answer with; `None` for the end."""
        if not offered:
            return None  # it wants a title or a summary
        self.offered |= offered
        if len(results) > len(self.results):
            self.results = results
        if len(results) >= len(self.calls):
            return None
        call = self.calls[len(results)]
        name = self.pick(list(offered), call.tool)
        return (name, call) if name else None


class Model:
    """Serves plays on a loopback port, each under an address of its own. Use it as a context manager."""

    def __init__(self):
        self._plays: dict[str, Play] = {}
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                _, key, *path = self.path.split("?")[0].split("/")
                model._answer(self, model._plays.get(key), "/".join(path), body)

            def do_GET(self):
                self.send(404, "application/json", b"{}")

            do_HEAD = do_GET

            def send(self, status: int, kind: str, body: bytes):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def stage(self, key: str, play: Play) -> str:
        """The address under which a client finds this play."""
        self._plays[key] = play
        return f"http://127.0.0.1:{self._server.server_address[1]}/{key}"

    def _answer(self, request, play: Play | None, path: str, body: bytes):
        speak = next((dialect for word, dialect in DIALECTS.items() if word in path), None)
        if play is None or speak is None:
            if play:
                play.strange.append(path)
            request.send(404, "application/json", b"{}")
            return
        asked = json.loads(body)
        play.hear([asked.get(name) for name in ("messages", "input", "contents")])
        streams = asked.get("stream") or "streamGenerateContent" in path
        whole, events = speak(asked, play)
        if streams:
            text = "".join(events)
            request.send(200, "text/event-stream", text.encode())
        else:
            request.send(200, "application/json", json.dumps(whole).encode())


def _event(data: dict, name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


Answer = tuple[dict, Iterator[str]]


def _messages(asked: dict, play: Play) -> Answer:
    """Anthropic's."""
    offered = {tool["name"]: tool for tool in asked.get("tools", []) if "input_schema" in tool}
    parts = [
        part
        for message in asked["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    results = [part["content"] for part in parts if part["type"] == "tool_result"]
    step = play.next(offered, results)
    if step:
        name, call = step
        use = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": name}
        block, reason = use | {"input": call.arguments}, "tool_use"
        start = use | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
    else:
        block, reason = {"type": "text", "text": END}, "end_turn"
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": END}
    usage = {"input_tokens": 1, "output_tokens": 1}
    frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "usage": usage}
    ending = {"stop_reason": reason, "stop_sequence": None}
    open_frame = frame | {"content": [], "stop_reason": None, "stop_sequence": None}
    events = [
        {"type": "message_start", "message": open_frame},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": usage},
        {"type": "message_stop"},
    ]
    return frame | {"content": [block]} | ending, (_event(event, event["type"]) for event in events)


def _responses(asked: dict, play: Play) -> Answer:
    """OpenAI's newer."""
    offered, spaces = {}, {}
    for tool in asked.get("tools", []):
        if tool["type"] == "function":
            offered[tool["name"]] = tool
        elif tool["type"] == "namespace":
            for inner in tool["tools"]:
                name = f"{tool['name']}{inner['name']}"
                offered[name] = inner
                spaces[name] = (tool["name"], inner["name"])
    items = asked["input"] if isinstance(asked["input"], list) else []
    results = [item["output"] for item in items if item.get("type") == "function_call_output"]
    step = play.next(offered, results)
    if step:
        name, call = step
        item = {
            "type": "function_call",
            "id": f"fc_{len(results)}",
            "call_id": f"call_{len(results)}",
            "name": name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        if name in spaces:
            item["namespace"], item["name"] = spaces[name]
    else:
        text = {"type": "output_text", "text": END, "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    frame = {
        "id": f"resp_{len(results)}",
        "object": "response",
        "created_at": 1,
        "model": asked.get("model", ""),
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "status": "completed",
        "output": [item],
        "usage": usage,
    }
    created = frame | {"status": "in_progress", "output": [], "usage": None}
    events = [
        {"type": "response.created", "response": created},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": frame},
    ]
    numbered = (event | {"sequence_number": number} for number, event in enumerate(events))
    return frame, (_event(event, event["type"]) for event in numbered)


def _completions(asked: dict, play: Play) -> Answer:
    """OpenAI's older."""
    offered = {tool["function"]["name"]: tool["function"] for tool in asked.get("tools", [])}
    results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
    step = play.next(offered, results)
    if step:
        name, call = step
        function = {"name": name, "arguments": json.dumps(call.arguments)}
        use = {"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [use]}
        reason = "tool_calls"
    else:
        message, reason = {"role": "assistant", "content": END}, "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    frame = {"id": "chatcmpl-1", "created": 1, "model": asked["model"]}
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    whole = frame | {"object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = frame | {"object": "chat.completion.chunk"}

    def events():
        yield _event(chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        ending = {"index": 0, "delta": {}, "finish_reason": reason}
        yield _event(chunk | {"choices": [ending], "usage": usage})
        yield "data: [DONE]\n\n"

    return whole, events()


def _contents(asked: dict, play: Play) -> Answer:
    """Gemini's."""
    offered = {
        function["name"]: function
        for tool in asked.get("tools", [])
        for function in tool.get("functionDeclarations", [])
    }
    parts = [part for content in asked["contents"] for part in content.get("parts", [])]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    step = play.next(offered, results)
    if step:
        name, call = step
        part = {"functionCall": {"name": name, "args": call.arguments}}
    else:
        part = {"text": END}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stand-in"}
    return whole, iter([_event(whole)])


def _counted(asked: dict, play: Play) -> Answer:
    """Gemini's question for how many tokens something is."""
    return {"totalTokens": 1}, iter(())


DIALECTS: dict[str, Callable[[dict, Play], Answer]] = {
    "messages": _messages,
    "responses": _responses,
    "chat/completions": _completions,
    "enerateContent": _contents,
    "countTokens": _counted,
}
