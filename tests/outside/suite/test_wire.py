"""The bare client: literal bytes on the wire."""

import json

from . import cases, raw
from .check import Check, checks
from .stage import EVERYTHING, Door, Stage
from .wire import Peer, RpcError

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
UPDATES = "demo://resource/dynamic/text/7"


class Wire(Check):
    client = "wire"

    def peer(self, door: Door, server: str | None = None, **options) -> Peer:
        endpoint = door.endpoints[server or self.server]
        if door.prefixed and endpoint.transport == "stdio" and not options:
            if endpoint not in self.stage.shared:
                self.stage.shared[endpoint] = Peer(endpoint)
            peer = self.stage.shared[endpoint]
            peer.forget()
            return peer
        peer = Peer(endpoint, **options)
        self.addCleanup(peer.__exit__)
        return peer

    def pair(self) -> tuple[Peer, Peer]:
        """One connection to the server itself and one through the door."""
        return self.peer(self.stage.direct), self.peer(self.door)

    def own(self, entries: list[str], server: str | None = None) -> list[str]:
        """The entries of this server's, their names as the server spells them, otherwise untouched."""
        if not self.door.prefixed:
            return entries
        mark = f'"{self.door.name(server or self.server, "")}'
        kept = []
        for entry in entries:
            if (name := raw.members(entry)["name"]).startswith(mark):
                kept.append(entry.replace(name, '"' + name.removeprefix(mark), 1))
        return kept

    def test_tools_are_listed(self):
        direct, through = self.pair()
        listed = through.listing("tools/list", "tools")
        self.assert_same(direct.listing("tools/list", "tools"), self.own(listed))

    def test_calls(self):
        through = self.peer(self.door)
        calls = cases.calls(self.stage, self.server)
        self.stage.reset()
        with Peer(self.stage.direct.endpoints[self.server]) as direct:
            expected = [direct.call(call.tool, call.arguments) for call in calls]
        self.stage.reset()
        direct = self.peer(self.stage.direct)
        for call, answer in zip(calls, expected, strict=True):
            name = self.door.name(self.server, call.tool)

            def both(call=call, name=name):
                return direct.call(call.tool, call.arguments), through.call(name, call.arguments)

            with self.subTest(tool=call.tool, arguments=call.arguments):
                actual = through.call(name, call.arguments)
                self.assert_same(answer, actual, both if call.clocked else None)

    def test_resources(self):
        direct, through = self.pair()
        for method, member, key in (
            ("resources/list", "resources", "uri"),
            ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ):
            expected = direct.listing(method, member)
            sought = {raw.members(entry)[key] for entry in expected}
            listed = through.listing(method, member)
            # Of equal URIs the first server's is listed; each everything server has the same ones.
            self.assert_same(expected, [e for e in listed if raw.members(e)[key] in sought])
        for uri in (cases.DOCUMENT, cases.TEXT_RESOURCE):
            def both(uri=uri):
                asked = {"uri": uri}
                return direct.request("resources/read", asked), through.request("resources/read", asked)

            with self.subTest(uri=uri):
                self.assert_same(*both(), both)
        with self.assertRaises(RpcError):
            through.request("resources/read", {"uri": "demo://nowhere"})

    def test_prompts_and_completion(self):
        direct, through = self.pair()
        listed = self.own(through.listing("prompts/list", "prompts"))
        self.assert_same(direct.listing("prompts/list", "prompts"), listed)
        for prompt, arguments in (
            ("simple-prompt", {}),
            ("args-prompt", {"city": "Zürich", "state": "☃"}),
        ):
            asked = {"name": prompt, "arguments": arguments}
            renamed = asked | {"name": self.door.name(self.server, prompt)}
            with self.subTest(prompt=prompt):
                self.assert_same(
                    direct.request("prompts/get", asked), through.request("prompts/get", renamed)
                )
        department = {"name": "department", "value": "E"}
        template = "demo://resource/dynamic/text/{resourceId}"
        for reference, argument in (
            ({"type": "ref/prompt", "name": "completable-prompt"}, department),
            ({"type": "ref/resource", "uri": template}, {"name": "resourceId", "value": "1"}),
        ):
            asked = {"ref": reference, "argument": argument}
            renamed = asked
            if "name" in reference:
                name = self.door.name(self.server, reference["name"])
                renamed = asked | {"ref": reference | {"name": name}}
            with self.subTest(reference=reference):
                self.assert_same(
                    direct.request("completion/complete", asked),
                    through.request("completion/complete", renamed),
                )

    def test_progress_of_a_long_call(self):
        asked, token = {"duration": 1, "steps": 4}, "tök-1"
        seen = []
        for peer, door in zip(self.pair(), (self.stage.direct, self.door), strict=True):
            name = door.name(self.server, "trigger-long-running-operation")
            result = peer.call(name, asked, progressToken=token)
            seen.append((result, peer.progress(token)))
        self.assertEqual(4, len(seen[0][1]))
        self.assert_same(*seen)

    def test_log_messages(self):
        peer = self.peer(self.door)
        name = self.door.name(self.server, "toggle-simulated-logging")
        peer.request("logging/setLevel", {"level": "debug"})
        self.assertIn("Started", peer.call(name, {}))
        self.addCleanup(peer.call, name, {})  # it would go on for other clients of a shared session
        params = peer.notice("notifications/message")
        self.assertEqual({"level", "data"}, {"level", "data"} & params.keys())

    def test_subscriptions(self):
        peer = self.peer(self.door)
        name = self.door.name(self.server, "toggle-subscriber-updates")
        peer.request("resources/subscribe", {"uri": UPDATES})
        self.assertIn("Started", peer.call(name, {}))
        self.addCleanup(peer.call, name, {})
        peer.notice("notifications/resources/updated", lambda params: params["uri"] == UPDATES)
        peer.request("resources/unsubscribe", {"uri": UPDATES})


class WireDoor(Wire):
    """What concerns a door as a whole."""

    def test_the_three_transports_offer_the_same(self):
        listings = []
        for server in EVERYTHING:
            listed = self.peer(self.door, server).listing("tools/list", "tools")
            listings.append(self.own(listed, server))
        self.assertIn("echo", listings[0][0])
        self.assert_same(listings[0], listings[1])
        self.assert_same(listings[0], listings[2])

    def test_every_revision_is_negotiated(self):
        for revision in REVISIONS:
            with self.subTest(revision=revision):
                peer = self.peer(self.door, "every-http", revision=revision)
                self.assertEqual(revision, peer.revision)
                name = self.door.name("every-http", "echo")
                content = raw.members(peer.call(name, {"message": "hi"}))["content"]
                self.assertEqual([{"type": "text", "text": "Echo: hi"}], json.loads(content))

    def test_an_unknown_tool_is_an_error(self):
        """Never a hang, never an empty success: servers differ in the form, so two are accepted."""
        peer = self.peer(self.door, "every-http")
        try:
            result = raw.members(peer.call(self.door.name("every-http", "no-such-tool"), {}))
        except RpcError as error:
            self.assertEqual(-32602, error.error["code"])
        else:
            self.assertEqual("true", result["isError"])


def tests(stage: Stage):
    common = ["tools_are_listed", "calls"]
    yield from checks(Wire, common, stage, list(stage.servers))
    everything = ["prompts_and_completion", "progress_of_a_long_call", "log_messages"]
    yield from checks(Wire, everything, stage, list(EVERYTHING))
    for check in checks(Wire, ["resources", "subscriptions"], stage, list(EVERYTHING)):
        # Three servers offer the same URIs; without a prefix the first of them answers.
        if not check.door.prefixed or check.server == EVERYTHING[0]:
            yield check
    whole = [
        "the_three_transports_offer_the_same",
        "every_revision_is_negotiated",
        "an_unknown_tool_is_an_error",
    ]
    yield from checks(WireDoor, whole, stage)
