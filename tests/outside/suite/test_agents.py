"""Clients as people use them: what each gets of a server, directly and through every door that it supports."""

import json

from .agents import CLIENTS, SERVER, Client, Seen, Visits, comparable
from .check import Check
from .stage import NODE, Door, Endpoint, Stage, sse_doors
from .test_wire import Wire
from .wire import Peer


class Agents(Check):
    def __init__(self, visits: Visits, client: Client, door: Door, table: "Table"):
        super().__init__("test_sees_what_it_sees_directly", visits.stage, door, SERVER)
        self.client, self.visitor, self.visits, self.table = client.label, client, visits, table

    def chosen(self):
        if not self.visitor.is_missing:
            for door in (self.visits.direct, self.door):
                self.visits.expect(self.visitor, door)

    def test_sees_what_it_sees_directly(self):
        if self.visitor.is_missing:
            self.skipTest(f"there is no {self.client} for this machine")
        doors = (self.visits.direct, self.door)
        seen = [(self.visits.seen(self.visitor, door), door) for door in doors]
        for one, door in seen:
            self.table.note(self.client, door, one)
            self.assertEqual("", one.failed)
            self.assertEqual(self.visitor.calls + len(self.visitor.own_calls), len(one.results))
            if self.visitor.reads:
                self.assertIn("# Everything Server - Features", json.dumps(one.results[-1]))
            if self.visitor.is_prompted:
                self.assertTrue(one.more["prompt"])
        self.assertIn("Echo: grüße ☃ 😀", json.dumps(seen[0][0].results[:1], ensure_ascii=False))
        with self.subTest(what="tools"):
            self.assert_same(*(comparable(self.tools(*one), one[1]) for one in seen))
        with self.subTest(what="results"):
            self.assert_same(*(comparable(one.results, door) for one, door in seen))
        with self.subTest(what="more"):
            self.assert_same(*(comparable(one.more, door) for one, door in seen))

    def tools(self, seen: Seen, door: Door) -> dict[str, dict]:
        """What the client makes of the tools that every client is offered, whatever it declares."""
        found = {}
        for tool in self.visits.tools:
            spelled = self.visitor.spell(door.name(SERVER, tool))
            self.assertIn(spelled, seen.offered)
            found[tool] = {key: value for key, value in seen.offered[spelled].items() if key != "name"}
        return found


class Table(dict):
    """What each client saw: a line for each, for each door a column."""

    def note(self, client: str, door: Door, seen: Seen):
        told = f"{len(seen.offered)} tools, {len(seen.results)} results, {seen.seconds:.1f} s"
        self.setdefault(client, {})[door.label] = told if not seen.failed else "failed"

    def __str__(self):
        return "\n".join(
            f"{client}\n" + "\n".join(f"    {label:20} {told}" for label, told in doors.items())
            for client, doors in self.items()
        )


class McpRemote(Wire):
    """The bare client, behind a program that makes a pipe of an address."""

    client = "mcp-remote"
    _broken: dict[Endpoint, str] = {}  # it does not end where it cannot connect: nobody waits for that twice

    def peer(self, door: Door, server: str | None = None) -> Peer:
        endpoint = door.endpoints[server or self.server]
        way = ("--transport", f"{endpoint.transport}-only")
        remote = Endpoint(str(NODE / "mcp-remote"), (endpoint.url, *way), {"HOME": str(self.stage.folder)})
        self.assertNotIn(remote, self._broken)
        if remote not in self.stage.shared:
            try:
                self.stage.shared[remote] = Peer(remote)
            except Exception as error:
                self._broken[remote] = str(error)
                raise
        self.stage.shared[remote].forget()
        return self.stage.shared[remote]


def tests(stage: Stage):
    visits, table = Visits(stage), Table()
    stage.reports.append(table)
    for client in CLIENTS:
        for door in visits.doors:
            if door.endpoints[SERVER].transport in client.transports:
                yield Agents(visits, client, door, table)
    common = ["tools_are_listed", "calls", "prompts_and_completion", "progress_of_a_long_call", "log_messages"]
    yield from _remote(stage, common)
    for check in _remote(stage, ["resources", "subscriptions"]):
        # Three servers offer the same URIs; without a prefix the first of them answers.
        if not check.door.prefixed:
            yield check


def _remote(stage: Stage, methods: list[str]):
    """Over each of the transports of an address, to the server that speaks it."""
    if not stage.mainstay:
        return
    for server, doors in (("every-http", stage.doors[:2]), ("every-sse", sse_doors(stage.base, stage.servers))):
        for door in doors:
            for method in methods:
                yield McpRemote(f"test_{method}", stage, door, server)
