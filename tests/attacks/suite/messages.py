"""Messages: whoever reads one sees the same call, and an answer reaches the one who asked."""

import json
import threading

from .world import ANSWER_SECONDS, Daemon, Home, heard, until

# For some readers each of these is the member that it looks like: the case does not count for them, nor a NUL
# at the end, and some letters are as good as others.
LIKE_NAME = ("Name", "NAME", "nAme", "name\\u0000", "\\u006eAME")
LIKE_PARAMS = ("Params", "param\u017f", "PARAMS", "params\\u0000")
LIKE_ID = ("ID", "Id", "id\\u0000")
LIKE_METHOD = ("Method", "METHOD", "method\\u0000")


def _loose(home: Home) -> Daemon:
    """A daemon with a server that reads loosely, and has a tool that nobody may call."""
    loose = home.hostile("loose", tools=["allowed", "denied", "slow"], loose=True)
    daemon = home.serve({"loose": {**loose, "disabledTools": ["denied"]}})
    daemon.until_status("loose", "connected")
    return daemon


def _answers(daemon: Daemon, path: str, members: list[str]):
    """Sends a call with each of these members beside its own, first and last."""
    client = daemon.client(path)
    prefix = "loose__" if path == "/mcp" else ""
    for member in members:
        for message in (f'"jsonrpc":"2.0","id":1,%s,{member}', f'{member},"jsonrpc":"2.0","id":1,%s'):
            call = f'"method":"tools/call","params":{{"name":"{prefix}allowed","arguments":{{}}}}'
            client.post(("{" + message % call + "}").encode())


def a_tool_behind_another_name(home: Home):
    daemon = _loose(home)
    for path, prefix in (("/mcp", "loose__"), ("/servers/loose/mcp", "")):
        client = daemon.client(path)
        for like in LIKE_NAME:
            pair = (f'"name":"{prefix}allowed"', f'"{like}":"denied"')
            for inside in (",".join(pair), ",".join(reversed(pair))):
                message = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{inside},"arguments":{{}}}}}}'
                status, text = client.post(message.encode())
                got = json.loads(text).get("result", {}) if text.startswith("{") else text
                assert not _ran(home, "denied"), f"{path}: a tool that is disabled ran, by {inside}: {status} {got}"


def _ran(home: Home, tool: str) -> bool:
    """Whether the loose server has taken a message for a call of this tool."""
    for line in home.record_of("loose").read_text().splitlines():
        said = json.loads(line, object_pairs_hook=_loosely)
        if said.get("method") == "tools/call" and said["params"].get("name") == tool:
            return True
    return False


def _loosely(pairs: list) -> dict:
    known = {"method", "params", "name", "id"}
    plain = ((key, key.rstrip("\0").casefold(), value) for key, value in pairs)
    return {folded if folded in known else key: value for key, folded, value in plain}


def other_members_beside_a_call(home: Home):
    daemon = _loose(home)
    for path in ("/mcp", "/servers/loose/mcp"):
        _answers(daemon, path, [f'"{like}":{{"name":"denied","arguments":{{}}}}' for like in LIKE_PARAMS])
        assert not _ran(home, "denied"), f"{path}: a tool that is disabled ran"
        _answers(daemon, path, [f'"{like}":"logging/setLevel"' for like in LIKE_METHOD])
        sent = home.record_of("loose").read_text()
        assert "logging/setLevel" not in sent, f"{path}: another method was sent"


def an_answer_to_somebody_else(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    daemon = _loose(home)
    victim, attacker = daemon.client(token=alice), daemon.client(token=mallory)
    got = {}
    calling = threading.Thread(target=lambda: got.update(victim.call("loose__slow", {"text": "for alice"})))
    calling.start()
    number = until("the call", lambda: home.received("loose", "tools/call"))[0]["id"]
    for like in LIKE_ID:
        params = '{"name":"loose__allowed","arguments":{"text":"forged"}}'
        call = f'"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}'
        body = f'{{{call},"{like}":{json.dumps(number)}}}'
        try:
            daemon.ask("POST", "/mcp", body.encode(), attacker.headers, 1)
        except TimeoutError:  # Its own call has no answer, then.
            pass
    calling.join(ANSWER_SECONDS)
    assert "for alice" in str(got.get("result")), f"alice got {got}"


def another_message_inside_of_an_answer(home: Home):
    """To a client that reads loosely an answer must be no other one, and no request either."""
    extra = {"ID": 99, "id\0": 99, "Result": {"content": []}, "Method": "sampling/createMessage", "Params": {}}
    daemon = home.serve({"evil": home.hostile("evil", tools=["say"], extra=extra)})
    daemon.until_status("evil", "connected")
    for path, tool in (("/mcp", "evil__say"), ("/servers/evil/mcp", "say")):
        answer = daemon.client(path).call(tool, {"text": "hello"})
        passed_on = set(answer) & set(extra)
        assert not passed_on, f"{path}: passed on: {passed_on}"
    answer = daemon.modern("/mcp", None, "tools/call", {"name": "evil__say", "arguments": {}})
    assert not set(answer) & set(extra), f"a client without a session: {answer}"


def members_that_come_twice(home: Home):
    calm = home.hostile("calm", tools=["allowed", "denied"])
    daemon = home.serve({"calm": {**calm, "disabledTools": ["denied"]}})
    daemon.until_status("calm", "connected")
    call = '"jsonrpc":"2.0","id":1,"method":"tools/call"'
    for path, prefix in (("/mcp", "calm__"), ("/servers/calm/mcp", "")):
        client = daemon.client(path)
        for message in (
            f'{call},"params":{{"name":"{prefix}allowed","name":"denied"}}',
            f'{call},"params":{{"name":"{prefix}allowed","n\\u0061me":"denied"}}',
            f'{call},"params":{{"name":"{prefix}allowed"}},"params":{{"name":"denied"}}',
            f'{call},"params":{{"name":"{prefix}allowed"}},"p\\u0061rams":{{"name":"denied"}}',
            f'{call},"id":2,"params":{{"name":"{prefix}allowed"}}',
            f'{call},"method":"ping","params":{{"name":"{prefix}allowed"}}',
            f'{call},"params":{{"name":"{prefix}allowed","arguments":{{}},"arguments":{{"x":1}}}}',
            f'{call},"params":{{"name":"{prefix}allowed","_meta":{{"progressToken":1,"progressToken":2}}}}',
            f'{call},"params":{{"name":"{prefix}allowed","_meta":{{"progressToken":1}},"_meta":{{"progressToken":2}}}}',
        ):
            status, text = client.post(("{" + message + "}").encode())
            assert '"result"' not in text, f"{path} {message}: {status} {text[:200]}"
    assert not home.received("calm", "tools/call"), home.received("calm", "tools/call")
    rest = {"authorization": f"Bearer {daemon.token}", "content-type": "application/json"}
    body = b'{"tool":"calm/allowed","tool":"calm/denied"}'
    status, _, text = daemon.ask("POST", "/api/mcp-tools/call", body, rest)
    assert status == 400, f"{status} {text}"


def lines_inside_of_events(home: Home):
    """Ends of lines in an answer, or in an id, must not begin another event."""
    listener = home.listener()
    spaced = '{"jsonrpc":"2.0",\r"id":%s,\r\r\n\n"result":\r\n{%s}\r\n\r\n}'
    results = {
        "initialize": '"protocolVersion":"2025-06-18",\r"capabilities":{"tools":{}},'
        '"serverInfo":{"name":"x",\n"version":"1"}',
        "tools/list": '"tools":[\r\n{"name":"say",\n\n"inputSchema":{"type":"object"}}]',
        "tools/call": '"content":\r[{"type":"text",\n\n"text":"hello"}]',
    }

    def answer(request):
        message = json.loads(request.body or b"{}")
        if "id" not in message:
            return 202, {}, b""
        body = spaced % (json.dumps(message["id"]), results.get(message["method"], ""))
        return 200, {"content-type": "application/json"}, body.encode()

    listener.answer = answer
    daemon = home.serve({"x": {"url": listener.url()}})
    daemon.until_status("x", "connected")
    for path, tool in (("/mcp", "x__say"), ("/servers/x/mcp", "say")):
        client = daemon.client(path)
        client.headers["accept"] = "text/event-stream"
        called = f'"method":"tools/call",\r"params":{{"name":"{tool}"}}'
        request = '{"jsonrpc":"2.0",\r"id":"1\\r\\n\\r\\nid: 5\\ndata: {}",\n\n' + called + "}"
        status, text = client.post(request.encode())
        lines = [line for line in text.replace("\r", "\n").split("\n") if line]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert status == 200 and len(lines) - len(data) <= 2 and len(data) == 1, f"{path}: {status} {text!r}"
        said = json.loads(data[0])
        assert said["id"] == "1\r\n\r\nid: 5\ndata: {}" and "hello" in str(said["result"]), f"{path}: {text!r}"


def other_clients_cancel_and_answer(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    daemon = home.serve({"calm": home.hostile("calm", tools=["slow"])})
    daemon.until_status("calm", "connected")
    victim, attacker = daemon.client(token=alice), daemon.client(token=mallory)
    got = {}
    calling = threading.Thread(target=lambda: got.update(victim.call("calm__slow", {"text": "for alice"})))
    calling.start()
    until("the call", lambda: home.received("calm", "tools/call"))
    forged = {"content": [{"type": "text", "text": "forged"}]}
    for number in range(12):
        for name in (number, str(number)):
            gone = {"requestId": name, "reason": "because"}
            attacker.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            done = {"progressToken": name, "progress": 1}
            attacker.post({"jsonrpc": "2.0", "method": "notifications/progress", "params": done})
            attacker.post({"jsonrpc": "2.0", "id": name, "result": forged})
    calling.join(ANSWER_SECONDS)
    assert "for alice" in str(got.get("result")), f"alice got {got}"
    assert not home.received("calm", "notifications/cancelled")


def events_of_another_session(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    daemon = home.serve({"calm": home.hostile("calm", tools=["slow"])})
    daemon.until_status("calm", "connected")
    latest = "2025-11-25"

    def begin(token: str):
        client = daemon.client(token=token, begin=False)
        client.headers["mcp-protocol-version"] = latest
        params = {"protocolVersion": latest, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        assert "result" in client.ask("initialize", params)
        return client

    victim, twin, attacker = begin(alice), begin(alice), begin(mallory)
    params = {"name": "calm__slow", "arguments": {"text": "for alice"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    stream = daemon.stream("POST", "/mcp", victim.headers, body)
    said = heard(stream, "id: ")
    stream.close()
    event = next(line.split()[1] for line in said.splitlines() if line.startswith("id: "))
    thief = dict(attacker.headers) | {"mcp-session-id": victim.headers["mcp-session-id"]}
    for who, headers in (("another", attacker.headers), ("a twin", twin.headers), ("a thief", thief)):
        headers = {**headers, "accept": "text/event-stream", "last-event-id": event}
        stream = daemon.stream("GET", "/mcp", headers)
        said = heard(stream, "for alice", 2.5)
        stream.close()
        assert "for alice" not in said, f"{who} got {said}"
    headers = {**victim.headers, "accept": "text/event-stream", "last-event-id": event}
    stream = daemon.stream("GET", "/mcp", headers)
    assert "for alice" in heard(stream, "for alice", 5), "the one whose it is gets it"
    stream.close()
