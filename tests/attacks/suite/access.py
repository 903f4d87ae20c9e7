"""Doors: who may come in, and whose session, task or target it is."""

import json

from .world import Home, heard, until

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "attacker", "version": "1"},
        },
    }
)


def _status(daemon, lines: list[str], path: str = "/mcp", body: str = INITIALIZE) -> int:
    head = [
        f"POST {path} HTTP/1.1",
        *lines,
        "connection: close",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        f"content-length: {len(body)}",
    ]
    answer = daemon.raw(("\r\n".join(head) + "\r\n\r\n" + body).encode())
    return int(answer.split(b" ", 2)[1]) if answer else 0


def hosts_that_only_look_local(home: Home):
    daemon = home.serve({})
    port = daemon.address.rsplit(":", 1)[1]
    assert _status(daemon, [f"host: localhost:{port}"]) == 200
    for host in (
        f"localhost:{port}@evil.com",
        "[::1].evil.com",
        "localhost.evil.com",
        "127.0.0.1.evil.com",
        "localhost:80:80",
        "localhost:99999",
        "evil.com#localhost",
        "user@localhost",
        "",
    ):
        for path in ("/mcp", "/sse", "/api/servers", "/metrics", "/healthz"):
            status = _status(daemon, [f"host: {host}"], path)
            assert status in (400, 403), f"Host {host!r} at {path}: {status}"


def origins_that_only_look_local(home: Home):
    daemon = home.serve({})
    host = f"host: {daemon.address}"
    for origin in (
        "http://localhost:80.evil.com",
        "http://localhost.evil.com",
        "http://localhost@evil.com",
        "http://[::1].evil.com",
        "http://evil.com/http://localhost",
        "null",
        "localhost",
        "file://",
    ):
        status = _status(daemon, [host, f"origin: {origin}"])
        assert status in (400, 403), f"Origin {origin!r}: {status}"


def two_hosts(home: Home):
    daemon = home.serve({})
    for second in (daemon.address, "evil.com"):
        status = _status(daemon, [f"host: {daemon.address}", f"host: {second}"])
        assert status == 400, f"two hosts: {status}"


def a_session_that_was_ended_comes_back(home: Home):
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    for path, tool in (("/mcp", "calm__say"), ("/servers/calm/mcp", "say")):
        client = daemon.client(path)
        assert "result" in client.call(tool)
        assert client.end() in (200, 202, 204)
        status, text = client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert status == 404, f"the same run, {path}: {status} {text}"
    daemon.stop()
    daemon = home.start("--config", home.path / "servers.json")
    client.daemon = daemon
    status, text = client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert status == 404, f"the next run: {status} {text}"


def another_target_for_a_known_name(home: Home):
    daemon = home.serve({"known": home.hostile("known", tools=["say"])}, ownTools=["control"])
    daemon.until_status("known", "connected")
    listener = home.listener()
    client = daemon.client(token=daemon.token)
    client.call("remove_server", {"name": "known"})
    for name in ("known", "Known"):
        client.call("add_server", {"name": name, "url": listener.url()})
        server = daemon.server(name)
        assert server is None or server["status"] == "pending", f"{name}: {server}"
        daemon.client().call(f"{name}__say", {"text": "secret"})
    assert not listener.requests, f"it was asked: {listener.requests}"
    daemon.stop()
    daemon = home.start("--config", home.path / "servers.json")
    daemon.client(token=daemon.token).call("add_server", {"name": "known", "url": listener.url()})
    daemon.client().call("known__say", {"text": "secret"})
    assert not listener.requests, f"it was asked after a restart: {listener.requests}"


def a_health_url_of_another_origin(home: Home):
    server, other = home.listener(), home.listener()
    entry = {
        "url": server.url(),
        "bearerToken": "t0p-s3cret",
        "headers": {"x-api-key": "t0p-s3cret"},
        "healthCheckUrl": other.url("/health"),
        "healthCheckIntervalMs": 100,
        "preset": "router",
    }

    def answer(request):
        message = json.loads(request.body or b"{}")
        if "id" not in message:
            return 202, {}, b""
        result = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            },
            "tools/list": {"tools": []},
        }.get(message["method"], {})
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return 200, {"content-type": "application/json"}, body.encode()

    server.answer = answer
    daemon = home.serve({"x": entry})
    daemon.until_status("x", "connected")
    until("a look at its health", lambda: len(other.requests) >= 2)
    assert server.heard("t0p-s3cret"), "the server itself gets its token"
    assert not other.heard("t0p-s3cret"), f"{other.requests[0]}"


def hosts_and_origins_of_every_grammar(home: Home):
    daemon = home.serve({})
    port = daemon.address.rsplit(":", 1)[1]
    own = f"host: {daemon.address}"
    hosts = (
        *("[::1%25lo]", "[::1%lo]", "[::ffff:127.0.0.1]", "[127.0.0.1]", "127.0.0.1.", "127.1", "0177.0.0.1"),
        *("2130706433", "0x7f000001"),
        *("0.0.0.0", "0", "[::]", "xn--localhost-", "localhost%00.evil.com", "localhost,evil.com"),
        *("local\u212aost", "localhost/evil", "localhost?", "localhost evil.com", "*"),
        *(f"localhost:+{port}", "localhost:65536"),
        *("foo.localhost", "localhost.localdomain", "ip6-localhost", "localhost..", ".localhost", f"@localhost:{port}"),
    )
    for host in hosts:
        status = _status(daemon, [f"host: {host}"])
        assert status in (400, 403), f"Host {host!r}: {status}"
    origins = (
        *("", "NULL", "null, http://localhost", "http://localhost, http://evil.com", "http://localhost http://evil.com"),
        *("http:localhost", "http:/localhost", "http:///localhost", "http:\\\\localhost", "http://localhost/"),
        *("http://localhost?x", "http://localhost#x", "ftp://localhost", "chrome-extension://localhost"),
        *("http://foo.localhost", "http://127.1", "http://2130706433", "http://[::ffff:127.0.0.1]"),
        *("http://[::1%25lo]", "http://0.0.0.0", "http://localhost:80:80"),
    )
    for origin in origins:
        status = _status(daemon, [own, f"origin: {origin}"])
        assert status in (400, 403), f"Origin {origin!r}: {status}"
    status = _status(daemon, [own, "origin: http://localhost", "origin: http://evil.com"])
    assert status in (400, 403), f"two origins: {status}"
    # The host of the request line counts, too.
    for line in ("http://evil.com/mcp", f"http://localhost:{port}@evil.com/mcp", "http://user@localhost/mcp"):
        status = _status(daemon, [own], line)
        assert status in (400, 403), f"{line}: {status}"
    status = _status(daemon, ["host: evil.com"], f"http://{daemon.address}/mcp")
    assert status in (400, 403), f"another host beside ours: {status}"


def a_request_inside_of_a_request(home: Home):
    """Where a body ends is not for two readers to see differently: what is in it is no request."""
    daemon = home.serve({})
    inner = (
        f"GET /api/servers HTTP/1.1\r\nhost: {daemon.address}\r\n"
        f"authorization: Bearer {daemon.token}\r\nconnection: close\r\n\r\n"
    )
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: {daemon.address}\r\n"
        "content-type: application/json\r\naccept: application/json\r\n"
    )
    two, chunked = len(inner) + 2, len(inner) + 5
    for lengths, body in (
        (f"content-length: {chunked}\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
        (f"transfer-encoding: chunked\r\ncontent-length: {chunked}", "0\r\n\r\n"),
        (f"content-length: 2\r\ncontent-length: {two}", "{}"),
        (f"content-length: 2, {two}", "{}"),
        (f"content-length: +2\r\nx: {two}", "{}"),
        ("transfer-encoding: identity\r\ncontent-length: 2", "{}"),
        ("transfer-encoding: xchunked\r\ncontent-length: 2", "{}"),
        ("transfer-encoding: chunked, identity", "0\r\n\r\n"),
        ("transfer-encoding : chunked\r\ncontent-length: 2", "{}"),
        ("transfer-encoding:\r\n chunked\r\ncontent-length: 2", "{}"),
        ("x: a\rtransfer-encoding: chunked\r\ncontent-length: 2", "{}"),
        ("transfer-encoding: chunked", "0x0\r\n\r\n"),
        ("transfer-encoding: chunked", "-1\r\n\r\n"),
    ):
        answer = daemon.raw(f"{head}{lengths}\r\n\r\n{body}{inner}".encode(), 0.7)
        assert b"\"servers\"" not in answer, f"{lengths!r}: {answer[:600]}"


def paths_that_only_look_harmless(home: Home):
    daemon = home.serve({})
    client, *_ = home.tokens("laptop")
    plain = ("//api/servers", "/%61pi/servers", "/API/servers", "/api/./servers", "/api%2fservers")
    for path in (*plain, "/healthz/../api/servers"):
        for token in (client, "", "mst_"):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            status, _, text = daemon.ask("GET", path, None, headers)
            assert status in (400, 401, 403, 404), f"{path}: {status} {text}"
    # The first of two is the one that counts, and both must not be tried.
    two = f"authorization: Bearer nope\r\nauthorization: Bearer {daemon.token}"
    head = f"GET /api/servers HTTP/1.1\r\nhost: {daemon.address}\r\n{two}\r\nconnection: close\r\n\r\n"
    answer = daemon.raw(head.encode())
    assert answer.startswith(b"HTTP/1.1 40"), answer[:200]


def sessions_of_another_token(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])}, profiles={"small": {"servers": ["calm"]}})
    daemon.until_status("calm", "connected")
    paths = ("/mcp", "/servers/calm/mcp", "/mcp/small")
    for path in paths:
        victim = daemon.client(path, alice)
        for token in (mallory, daemon.token, None):
            for other in paths:
                thief = daemon.client(other, token, begin=False)
                thief.headers["mcp-session-id"] = victim.headers["mcp-session-id"]
                statuses = [
                    thief.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[0],
                    thief.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})[0],
                    daemon.ask("GET", other, None, {**thief.headers, "accept": "text/event-stream"})[0],
                    thief.end(),
                ]
                assert set(statuses) <= {401, 404}, f"{path} at {other}: {statuses}"
        assert "result" in victim.ask("tools/list"), f"{path}: the session is gone"
    stream = daemon.stream("GET", "/sse", {"authorization": f"Bearer {alice}", "accept": "text/event-stream"})
    said = heard(stream, "sessionId=")
    endpoint = next(line.removeprefix("data: ") for line in said.splitlines() if "sessionId=" in line)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for token, expected in ((mallory, 404), (daemon.token, 404), (None, 401), (alice, 202)):
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        status, _, text = daemon.ask("POST", endpoint, ping, headers)
        assert status == expected, f"{endpoint}: {status} {text}"
    stream.close()


def tasks_and_states_of_another_token(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    entries = {
        name: {**home.hostile(name, modern=True, tools=["job", "ask", "say"]), "protocol": "modern"} for name in "xy"
    }
    daemon = home.serve(entries, profiles={"small": {"servers": ["y"]}})
    for name in entries:
        daemon.until_status(name, "connected")
    paths = {"/mcp": "x__", "/servers/x/mcp": "", "/servers/y/mcp": "", "/mcp/small": "y__"}
    for path in ("/mcp", "/servers/x/mcp"):
        call = {"name": f"{paths[path]}job", "arguments": {}}
        name = daemon.modern(path, alice, "tools/call", call)["result"]["taskId"]
        assert "result" in daemon.modern(path, alice, "tasks/get", {"taskId": name})
        seal, own = name.split("-x/", 1)
        guesses = (name, own, name.upper(), f"{seal}-y/{own}", f"{'0' * 32}-x/{own}", f"{name}\0")
        thieves = [(token, other) for token in (mallory, daemon.token) for other in paths]
        for token, other in [*thieves, (alice, "/servers/y/mcp"), (alice, "/mcp/small")]:
            for guess in guesses:
                for method in ("tasks/get", "tasks/result", "tasks/update", "tasks/cancel"):
                    answer = daemon.modern(other, token, method, {"taskId": guess, "inputResponses": {}})
                    assert "error" in answer, f"{path}, {method} {guess!r} at {other}: {answer}"
        asking = {"name": f"{paths[path]}ask", "arguments": {}}
        asked = daemon.modern(path, alice, "tools/call", asking)["result"]
        answers = {"who": {"action": "accept", "content": {"name": "Mallory"}}}
        calls = len(home.received("x", "tools/call"))
        for state in (asked["requestState"], "the state of the server"):
            for token, other in thieves:
                tool = f"{paths[other]}ask"
                stolen = {"name": tool, "arguments": {}, "requestState": state, "inputResponses": answers}
                answer = daemon.modern(other, token, "tools/call", stolen)
                assert "error" in answer, f"{path}, the state at {other}: {answer}"
        sent = home.received("x", "tools/call")[calls:] + home.received("y", "tools/call")
        assert not [it for it in sent if "requestState" in it["params"]], f"{path}: {sent}"
        mine = {**asking, "requestState": asked["requestState"], "inputResponses": answers}
        assert "result" in daemon.modern(path, alice, "tools/call", mine), f"{path}: alice cannot go on"
    for method in ("tasks/update", "tasks/cancel"):
        assert not home.received("x", method) and not home.received("y", method), method


def a_question_to_somebody_with_a_token(home: Home):
    """Who has no token, where none is needed, is nobody's heir."""
    alice, mallory = home.tokens("alice", "mallory")
    entry = {**home.hostile("curious", tools=["ask"], asks={"ask": "what is your PIN?"}), "serverRequests": "queue"}
    daemon = home.serve({"curious": entry}, ownTools=["activity"], http={"requireToken": False})
    daemon.until_status("curious", "connected")
    victim = daemon.client(token=alice)
    params = {"name": "curious__ask", "arguments": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    stream = daemon.stream("POST", "/mcp", victim.headers, body)
    listed = until("the question", lambda: daemon.rest("GET", "/api/server-requests")[1]["requests"])
    for token in (mallory, None):
        attacker = daemon.client(token=token)
        shown = attacker.call("get_elicitations")
        for number in {listed[0].get("id"), listed[0].get("request_id"), "1"}:
            given = {"request_id": str(number), "action": "accept", "content": {"name": "forged"}}
            attacker.call("respond_to_elicitation", given)
        who = "another token" if token else "nobody's token"
        assert "PIN" not in str(shown), f"{who} sees {shown}"
    assert "forged" not in heard(stream, "forged", 1), "somebody else has answered"
    stream.close()


def another_origin_is_told_no_secret(home: Home):
    """Redirects and endpoints lead nowhere else, and neither do looks at the health."""
    headers = {"bearerToken": "t0p-s3cret", "headers": {"x-api-key": "t0p-s3cret"}}

    def elsewhere(server, other):
        port = other.port
        yield from (f"http://127.0.0.1:{port}/mcp", f"//127.0.0.1:{port}/mcp", f"HTTP://127.0.0.1:{port}/mcp")
        yield f"http://127.0.0.1:{server.port}@127.0.0.1:{port}/mcp"

    for number in range(4):
        server, endpoint, sick, other = (home.listener() for _ in range(4))
        to = lambda listener: list(elsewhere(listener, other))[number]
        code = (301, 302, 307, 308)[number]
        server.answer = lambda _: (code, {"location": to(server)}, b"")
        events = {"content-type": "text/event-stream"}
        endpoint.answer = lambda _: (200, events, f"event: endpoint\ndata: {to(endpoint)}\n\n".encode())
        moved = lambda: (302, {"location": to(sick)}, b"")
        sick.answer = lambda request: moved() if request.command == "GET" else _served(request)
        often = {"healthCheckUrl": sick.url("/health"), "healthCheckIntervalMs": 100, "preset": "router"}
        daemon = home.serve(
            {
                "moved": {"url": server.url(), **headers},
                "events": {"url": endpoint.url("/sse"), "type": "sse", **headers},
                "sick": {"url": sick.url(), **often, **headers},
            }
        )
        until("all to be asked", lambda: all(it.requests for it in (server, endpoint)))
        until("a look", lambda: any(path == "/health" for _, path, _ in sick.requests))
        daemon.stop()
        assert not other.heard("t0p-s3cret"), f"{to(server)}: {other.requests[0]}"


def _served(request):
    """What a server without tools answers."""
    message = json.loads(request.body or b"{}")
    if "id" not in message:
        return 202, {}, b""
    info = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
    result = {"protocolVersion": "2025-06-18", **info} if message["method"] == "initialize" else {"tools": []}
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    return 200, {"content-type": "application/json"}, body.encode()


def another_entry_than_was_shown(home: Home):
    daemon = home.serve({}, ownTools=["control"])
    client = daemon.client(token=daemon.token)
    shown = {"name": "x", "command": "/bin/true"}
    for more in (
        {"command": "/bin/false"},
        {"args": ["-x"]},
        {"cwd": "/tmp"},
        {"env": {"LD_PRELOAD": "/tmp/x.so"}},
        {"inheritEnv": "none"},
        {"inputParams": {"a": "b"}},
        {"roots": ["file:///"]},
        {"healthCheckUrl": "http://evil.example/"},
        {"serverRequests": "forward"},
    ):
        client.call("add_server", shown)
        digest = daemon.rest("GET", "/api/servers/x")[1]["server"]["pending"]["digest"]
        client.call("remove_server", {"name": "x"})
        client.call("add_server", {**shown, **more})
        status, answer = daemon.rest("POST", "/api/servers/x/approve", {"digest": digest})
        assert status == 409, f"{more}: {status} {answer}"
        for given in ({}, {"digest": ""}, {"digest": None}):
            status, answer = daemon.rest("POST", "/api/servers/x/approve", given)
            assert status in (400, 409), f"{more} with {given}: {status} {answer}"
        assert daemon.server("x")["status"] == "pending", f"{more}: {daemon.server('x')}"
        client.call("remove_server", {"name": "x"})


def pages_that_do_not_say_their_origin(home: Home):
    """A page of any site can have a browser send a GET without `Origin`; it reads nothing, but would hold streams."""
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    client = daemon.client()
    for site in ("cross-site", "same-site"):
        for path in ("/sse", "/mcp", "/servers/calm/sse", "/servers/calm/mcp"):
            headers = {"accept": "text/event-stream", "sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
            if path == "/mcp":
                headers |= client.headers
            status = daemon.ask("GET", path, None, headers, 5)[0]
            assert status == 403, f"{site} {path}: {status}"
    for path in ("/metrics", "/healthz", "/api/servers"):
        policy = daemon.ask("GET", path)[1]["cross-origin-resource-policy"]
        assert policy == "same-origin", f"{path}: {policy}"
    # A page of this machine that says its origin, and a person who opens the page by a link.
    named = {"accept": "text/event-stream", "sec-fetch-site": "same-site", "origin": "http://localhost:3000"}
    with daemon.stream("GET", "/sse", named) as stream:
        assert " 200 " in heard(stream, "endpoint"), "a page that says its origin is refused"
    assert daemon.ask("GET", "/", None, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})[0] == 200
