"""Doors: who may come in, and whose session, task or target it is."""

import json

from .world import Home, until

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
