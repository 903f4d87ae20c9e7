"""What one request may cost: memory, and processors' time that others need."""

import contextlib
import json
import random
import socket
import time
from urllib.parse import quote

from .world import MIB, Client, Daemon, Home, Peak, until


def _kept(home: Home, text: str) -> tuple[Daemon, str]:
    """A daemon that keeps a result with this text, and the result's identifier."""
    result = {"content": [{"type": "text", "text": text}]}
    servers = {"vault": home.hostile("vault", tools=["give"], results={"give": result})}
    daemon = home.serve(servers, ownTools=["records", "meta"])
    daemon.until_status("vault", "connected")
    assert "result" in daemon.client().call("vault__give")

    def kept():
        _, listed = daemon.rest("GET", "/api/call-records")
        return next((call["result_cid"] for call in listed.get("calls", []) if "result_cid" in call), None)

    return daemon, until("the record of the result", kept)


def _cpu(daemon: Daemon) -> float:
    """Seconds that the daemon has computed."""
    with open(f"/proc/{daemon.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def a_path_that_finds_every_level(home: Home):
    """A path over nested arrays writes each value once for each level around it."""
    text = "[" * 90 + json.dumps("x" * (7 * MIB)) + "]" * 90
    daemon, cid = _kept(home, text)
    client = daemon.client("/mcp/meta")
    # The object is in memory then.
    assert "result" in client.call("read_object", {"cid": cid})
    with Peak(daemon) as peak:
        for ask in (
            lambda: client.call("read_object", {"cid": cid, "path": "$..*"}),
            lambda: client.ask("resources/read", {"uri": f"mainstay://objects/{cid}?path=$..*"}),
        ):
            assert "error" in (answer := ask()) or answer["result"], answer
    peak.assert_grew_less_than(200 * MIB)


def a_document_of_very_many_values(home: Home):
    daemon, cid = _kept(home, "[" + "1," * (3 * MIB) + "1]")
    client = daemon.client("/mcp/meta")
    assert "result" in client.call("read_object", {"cid": cid})
    with Peak(daemon) as peak:
        answer = client.call("read_object", {"cid": cid, "path": "$[*,*,*,*]"})
    assert "values" in str(answer), answer
    peak.assert_grew_less_than(64 * MIB)


def lines_that_all_match(home: Home):
    """Each line gets its number, which is longer than the line."""
    daemon, cid = _kept(home, "\n" * (5 * MIB))
    client = daemon.client("/mcp/meta")
    assert "result" in client.call("read_object", {"cid": cid})
    with Peak(daemon) as peak:
        client.call("read_object", {"cid": cid, "pattern": ""})
    peak.assert_grew_less_than(24 * MIB)


# Each character of the text takes as many steps as the pattern has places.
COSTLY = "[ab]*a[ab]{12000}c"


def a_pattern_that_takes_hours(home: Home):
    """It ends by itself, and others read meanwhile."""
    chance = random.Random(7)
    daemon, cid = _kept(home, "".join(chance.choices("ab", k=2 * MIB)))
    costly = {"cid": cid, "pattern": COSTLY}
    greedy = [daemon.client("/mcp/meta") for _ in range(3)]
    began = time.monotonic()
    streams = []
    for client in greedy:
        for _ in range(3):
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            body["params"] = {"name": "read_object", "arguments": costly}
            streams.append(daemon.stream("POST", "/mcp/meta", client.headers, json.dumps(body)))
    other = daemon.client("/mcp/meta")
    answer = other.call("read_object", {"cid": cid, "lines": "1", "length": 5})
    assert '"text"' in json.dumps(answer) and "result" in answer, answer
    took = time.monotonic() - began
    assert took < 6, f"another client waited for {took:.1f} s"
    slow = other.call("read_object", costly)
    assert "took longer than" in str(slow), slow
    for stream in streams:
        stream.close()
    _until_idle(daemon)


def a_pattern_in_an_address(home: Home):
    """The address of a kept object may hold a pattern, too."""
    chance = random.Random(7)
    daemon, cid = _kept(home, "".join(chance.choices("ab", k=2 * MIB)))
    read = {"uri": f"mainstay://objects/{cid}?pattern={quote(COSTLY, safe='')}"}
    streams = []
    for _ in range(3):
        client = daemon.client("/mcp/meta")
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": read})
        streams += [daemon.stream("POST", "/mcp/meta", client.headers, body) for _ in range(3)]
    other = daemon.client("/mcp/meta")
    began = time.monotonic()
    found = other.ask("resources/read", {"uri": f"mainstay://objects/{cid}?pattern={quote('^.{5}')}"})
    assert "result" in found, found
    took = time.monotonic() - began
    assert took < 6, f"another client waited for {took:.1f} s"
    slow = other.ask("resources/read", read)
    assert "took longer than" in str(slow), str(slow)[:1000]
    for stream in streams:
        stream.close()
    _until_idle(daemon)


def _until_idle(daemon: Daemon):
    """Waits for the end of searches that nobody waits for."""

    def is_idle():
        before = _cpu(daemon)
        time.sleep(0.5)
        return _cpu(daemon) - before < 0.1

    until("the end of the searches", is_idle, 40)


def _unread(daemon: Daemon, client: Client, number: int) -> socket.socket:
    """The connection of a call whose answer nobody reads."""
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
    body["params"] = {"name": "vault__give", "arguments": {}}
    return daemon.stream("POST", "/mcp", client.headers, json.dumps(body))


def _queued(daemon: Daemon) -> int:
    """Bytes that the system holds for the daemon's connections, until their peers read."""
    port = f":{int(daemon.address.rsplit(':', 1)[1]):04X}"
    queued = 0
    with open("/proc/net/tcp") as connections:
        for line in connections.readlines()[1:]:
            fields = line.split()
            if fields[1].endswith(port):
                queued += int(fields[4].split(":")[0], 16)
    return queued


def answers_that_fit_into_send_queues(home: Home):
    """Answers of 3 MB that nobody reads hold no more together than the limit says, in the daemon or the system."""
    result = {"content": [{"type": "text", "text": "x" * (3 * MIB)}]}
    servers = {"vault": home.hostile("vault", tools=["give"], results={"give": result})}
    daemon = home.serve(servers, http={"maxUnreadBytes": 16 * MIB}, journal={"enabled": False})
    daemon.until_status("vault", "connected")
    client = daemon.client()
    assert "result" in client.call("vault__give")
    before = daemon.memory()
    with contextlib.ExitStack() as closing:
        for number in range(40):
            closing.enter_context(_unread(daemon, client, number))
        until("all calls", lambda: len(home.received("vault", "tools/call")) >= 41)
        time.sleep(1)
        grown = daemon.memory() - before + _queued(daemon)
        assert grown < 80 * MIB, f"{grown // MIB} MiB more"
    assert "result" in daemon.client().ask("ping")
