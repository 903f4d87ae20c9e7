"""Limits: a client or a server that wants too much is alone in feeling it."""

import contextlib
import gzip
import http.client
import json
import resource
import shlex
import socket
import time

from .world import Home, Skipped, until


def ten_thousand_sessions(home: Home):
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    connection = http.client.HTTPConnection(daemon.address, timeout=20)
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "greedy", "version": "1"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    for _ in range(10_050):
        connection.request("POST", "/mcp", body, headers)
        connection.getresponse().read()
    connection.close()
    answer = daemon.client().call("calm__say", {"text": "hello"})
    assert "result" in answer, f"nobody gets in: {answer}"


def nine_sessions_of_one_server(home: Home):
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    clients = [daemon.client("/servers/calm/mcp") for _ in range(12)]
    for number, client in enumerate(clients):
        answer = client.call("say", {"text": "hello"})
        assert "result" in answer, f"client {number}: {answer}"
    # The first one's upstream session was closed for the others; it is opened again.
    assert "result" in clients[0].call("say", {"text": "again"})


def titles_of_many_megabytes(home: Home):
    daemon = home.serve({})
    before = daemon.memory()
    for number in range(12):
        daemon.client(info={"name": "x", "version": "1", "title": f"{number}" * (3 << 20)})
    grown = daemon.memory() - before
    assert grown < 64 << 20, f"{grown >> 20} MiB more"


def bodies_that_never_come(home: Home):
    daemon = home.serve({})
    host, port = daemon.address.rsplit(":", 1)
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: {daemon.address}\r\ncontent-type: application/json\r\n"
        "accept: application/json, text/event-stream\r\ncontent-length: 1000000\r\n\r\n{"
    )
    streams = [socket.create_connection((host, int(port)), timeout=60) for _ in range(20)]
    for stream in streams:
        stream.sendall(head.encode())
    assert "result" in daemon.client().ask("ping")
    end = time.monotonic() + 60
    for stream in streams:
        stream.settimeout(max(0.1, end - time.monotonic()))
        try:
            stream.recv(4096)
        except TimeoutError:
            raise AssertionError("a body that does not come is waited for longer than a minute") from None
        except ConnectionError:
            pass
        stream.close()


def lists_without_end(home: Home):
    daemon = home.serve(
        {"endless": home.hostile("endless", pages=4 << 20), "calm": home.hostile("calm", tools=["say"])}
    )
    daemon.until_status("calm", "connected")
    end, most = time.monotonic() + 12, 0
    while time.monotonic() < end:
        most = max(most, daemon.memory())
        time.sleep(0.1)
    pages = len(home.received("endless", "tools/list"))
    assert most < 400 << 20, f"{most >> 20} MiB after {pages} pages"
    assert pages <= 40, f"{pages} pages were asked for"
    assert "result" in daemon.client().call("calm__say")


def arguments_nested_too_deep(home: Home):
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    deep = b"[" * 100_000 + b"]" * 100_000
    client = daemon.client()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calm__say","arguments":{"x":%s}}}'
    status, text = client.post(body % deep)
    assert '"result"' not in text, f"{status} {text[:200]}"
    rest = {"authorization": f"Bearer {daemon.token}", "content-type": "application/json"}
    body = b'{"tool":"calm/say","arguments":{"x":%s}}' % deep
    status, _, text = daemon.ask("POST", "/api/mcp-tools/call", body, rest)
    assert status == 400, f"{status} {text[:200]}"
    assert not home.received("calm", "tools/call")
    assert "result" in client.call("calm__say")


def connections_that_never_end(home: Home):
    """One neighbour has many streams open; the operator, and clients at other addresses, get in all the same."""
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    wanted = 4300
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * wanted:
        raise Skipped(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * wanted), hard))
    host, port = daemon.address.rsplit(":", 1)
    request = f"GET /sse HTTP/1.1\r\nhost: {daemon.address}\r\naccept: text/event-stream\r\n\r\n".encode()
    streams = []
    try:
        with contextlib.suppress(TimeoutError):  # It takes no more.
            for number in range(wanted):
                streams.append(socket.create_connection((host, int(port)), timeout=5))
                streams[-1].sendall(request)
                # Not faster than they are accepted.
                if number % 100 == 0:
                    streams[-1].settimeout(5)
                    streams[-1].recv(1024)
        headers = {"authorization": f"Bearer {daemon.token}"}
        try:
            status = daemon.ask("GET", "/api/servers", None, headers, 5)[0]
        except OSError as error:
            open_ones = len(streams)
            raise AssertionError(f"with {open_ones} streams open the operator does not get in: {error!r}") from None
        assert status == 200, f"{status}"
        daemon.source = ("127.0.0.2", 0)
        assert "result" in daemon.client().call("calm__say", {"text": "hello"}), "another address does not get in"
    finally:
        for stream in streams:
            stream.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def more_servers_than_files(home: Home):
    """Few files may be open, and servers want more; the operator gets in, and reads why they are down."""
    limited = home.path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n 256\nexec {shlex.quote(str(home.mainstay))} "$@"\n')
    limited.chmod(0o755)
    home.mainstay = limited
    daemon = home.serve({f"calm{number}": home.hostile(f"calm{number}", tools=["say"]) for number in range(60)})

    def is_told():
        status, listed = daemon.rest("GET", "/api/servers")
        assert status == 200, f"{status} {listed}"
        return any("too many files are open" in str(it.get("lastError")) for it in listed["servers"])

    until("the reason", is_told, 60)
    assert daemon.ask("GET", "/healthz", None, None, 5)[0] == 200
    assert daemon.log.read_text().count("could not be accepted") < 10, "the log is flooded"


def bodies_that_are_compressed(home: Home):
    """A small body may not become a large one."""
    server = home.listener()
    text = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}' % (b"x" * (64 << 20))
    bomb = gzip.compress(text, 1)

    def answer(request):
        message = json.loads(request.body or b"{}")
        if message.get("method") == "tools/call":
            return 200, {"content-type": "application/json", "content-encoding": "gzip"}, bomb
        info = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
        result = {"protocolVersion": "2025-06-18", **info}
        if message.get("method") == "tools/list":
            result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
        return (200 if "id" in message else 202), {"content-type": "application/json"}, body.encode()

    server.answer = answer
    daemon = home.serve({"x": {"url": server.url()}})
    daemon.until_status("x", "connected")
    before = daemon.memory()
    client = daemon.client()
    for encoding in ("gzip", "deflate", "br", "zstd"):
        status, _, text = daemon.ask("POST", "/mcp", bomb, {**client.headers, "content-encoding": encoding})
        assert status in (400, 415), f"{encoding}: {status} {text[:200]}"
    client.call("x__say")
    grown = daemon.memory() - before
    assert grown < 48 << 20, f"{grown >> 20} MiB more"
    assert "result" in client.ask("ping")
