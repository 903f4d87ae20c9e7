"""A login lasts: tokens are renewed once, failures of the authorization server end no login, and an end is final."""

import json
import threading
import time
from datetime import datetime

from .mainstay import MainstayTest, text
from .web import until

# Time for a token to expire, to be renewed and to be used.
PERIOD_SECONDS = 60


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class UpkeepTest(MainstayTest):
    def logged_in(self, language: str = "node", **settings):
        provider = self.stage.provider(language, **settings)
        server = self.stage.server(provider)
        self.serve(server)
        self.mainstay.log_in("remote")
        return provider, server

    def until_renewed(self, provider, count: int):
        """Calls until so many refreshes have succeeded, and Mainstay has the answer of the last. No call fails."""

        def renewed():
            self.mainstay.echo("remote")
            ends = [request["at"] for request in provider.refreshes() if request["outcome"] == "ok"]
            last = self.mainstay.login("remote").get("lastRefresh")
            # A millisecond more: one clock, but times are rounded.
            return len(ends) >= count and last and instant(last["at"]) + 0.001 >= ends[-1]

        until(f"{count} refreshes", renewed, PERIOD_SECONDS)

    def test_tokens_that_expire_are_renewed(self):
        for language in ("node", "python"):
            with self.subTest(provider=language):
                if self.mainstay.daemon:
                    self.mainstay.daemon.stop()
                provider, server = self.logged_in(language, access_token_seconds=6)
                self.until_renewed(provider, 3)
                self.assert_one_use_of_each(provider.refreshes())
                self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})
                self.assertEqual(len(provider.token_requests("authorization_code")), 1)
                report = self.mainstay.login("remote")
                self.assertNotIn("error", report["lastRefresh"])

    def test_a_token_is_renewed_that_nobody_uses(self):
        provider, _ = self.logged_in(access_token_seconds=6)
        until("a refresh", lambda: self.outcomes(provider, "refresh_token") == ["ok"], PERIOD_SECONDS)

    def test_ten_calls_at_once_that_are_refused(self):
        provider, server = self.logged_in(access_token_seconds=16)
        clients = [self.mainstay.daemon.client() for _ in range(10)]
        # A token that was just issued is not replaced: a quarter of its lifetime.
        issued = provider.token_requests("authorization_code")[0]["at"]
        until("the token to be older", lambda: time.time() - issued > 5)
        self.assertEqual(provider.refreshes(), [], "this machine is too slow for the test")
        provider.act("expire")
        before = server.counts()["calls"].get("echo", 0)
        answers = [None] * len(clients)

        def call(index):
            answers[index] = text(clients[index].call("remote__echo", {"text": str(index)}))

        threads = [threading.Thread(target=call, args=[index]) for index in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PERIOD_SECONDS)
        self.assertEqual(answers, [str(index) for index in range(len(clients))])
        self.assertEqual(self.outcomes(provider, "refresh_token"), ["ok"])
        self.assertEqual(server.counts()["calls"]["echo"] - before, len(clients), "no call ran twice")

    def test_a_kill_keeps_the_login(self):
        provider, _ = self.logged_in(access_token_seconds=6)
        for number in range(1, 4):
            self.until_renewed(provider, number)
            self.mainstay.restart()
            self.mainstay.daemon.until_status("remote", "connected")
            self.mainstay.echo("remote")
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)
        self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})
        self.assert_one_use_of_each(provider.refreshes())

    def test_a_kill_while_a_refresh_is_under_way(self):
        provider, _ = self.logged_in(access_token_seconds=6, reuse_grace_seconds=60)
        provider.fault("slow", requests=1, delayMs=1500)
        before = self.mainstay.login("remote")["expiresAt"]
        until("a refresh", lambda: provider.report()["waiting"], PERIOD_SECONDS)
        self.mainstay.restart()
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")
        until(
            "the refresh that the kill cut off",
            lambda: self.mainstay.login("remote")["expiresAt"] != before,
            PERIOD_SECONDS,
        )
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)

    def test_failures_of_the_provider_end_no_login(self):
        for kind in ("status", "html", "hang", "reset"):
            with self.subTest(kind):
                if self.mainstay.daemon:
                    self.mainstay.daemon.stop()
                provider, _ = self.logged_in(access_token_seconds=6)
                provider.fault(kind)
                refused = f"fault: {kind}"
                until("an attempt", lambda: refused in self.outcomes(provider, "refresh_token"), PERIOD_SECONDS)
                self.assertIn(self.mainstay.login("remote")["status"], ("valid", "expired"))
                provider.act("well")
                until("a refresh", lambda: "ok" in self.outcomes(provider, "refresh_token"), PERIOD_SECONDS)
                until("a call", lambda: self.mainstay.call("remote", text="hello") == "hello", PERIOD_SECONDS)
                self.assertEqual(set(self.outcomes(provider, "refresh_token")), {refused, "ok"})
                self.assertEqual(len(provider.token_requests("authorization_code")), 1)
                self.mainstay.rest("DELETE", "/api/servers/remote/login")

    def test_attempts_become_rarer(self):
        provider, _ = self.logged_in(access_token_seconds=4)
        provider.fault("status")
        until("an attempt", provider.refreshes, PERIOD_SECONDS)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            self.mainstay.call("remote", text="x")
        attempts = len(provider.refreshes())
        self.assertLessEqual(attempts, 12, "each call has made an attempt")
        self.assertGreaterEqual(attempts, 2)

    def test_a_lost_answer_is_asked_for_again(self):
        provider, _ = self.logged_in(access_token_seconds=6, reuse_grace_seconds=60)
        provider.fault("lostAnswer", requests=1)
        self.until_renewed(provider, 2)
        presented = [request["presented"] for request in provider.refreshes()]
        self.assertEqual(presented[0], presented[1], "the old token was tried once more")
        self.until_renewed(provider, 3)
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)

    def test_a_lost_answer_that_is_reuse_to_the_provider(self):
        provider, _ = self.logged_in(access_token_seconds=6)
        provider.fault("lostAnswer", requests=1)
        until("the end", lambda: self.mainstay.login("remote")["status"] == "ended", PERIOD_SECONDS)
        self.assertEqual(self.outcomes(provider, "refresh_token"), ["ok", "invalid_grant"])

    def test_a_login_that_is_revoked(self):
        for language in ("node", "python"):
            with self.subTest(provider=language):
                if self.mainstay.daemon:
                    self.mainstay.rest("DELETE", "/api/servers/remote/login")
                    self.mainstay.daemon.stop()
                provider, _ = self.logged_in(language, access_token_seconds=8)
                provider.act("revoke")
                until("the end", lambda: self.mainstay.login("remote")["status"] == "ended", PERIOD_SECONDS)
                refused = until(
                    "the server to say so",
                    lambda: "mainstay auth login remote" in json.dumps(self.mainstay.server("remote")),
                )
                self.assertTrue(refused)
                attempts = len(provider.refreshes())
                self.assertEqual(attempts, 1)
                for _ in range(10):
                    self.assertIn("mainstay auth login remote", self.mainstay.call("remote", text="x"))
                self.mainstay.restart()
                self.mainstay.call("remote", text="x")
                # A new daemon may try once.
                self.assertLessEqual(len(provider.refreshes()), attempts + 1)
                self.mainstay.log_in("remote")
                self.mainstay.echo("remote")

    def test_a_provider_that_is_restarted(self):
        provider, _ = self.logged_in(access_token_seconds=6, state=self.stage.state())
        for number in range(1, 4):
            self.until_renewed(provider, number)
            provider.kill()
            provider.start()
        self.assertEqual(self.mainstay.login("remote")["status"], "valid")
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)
        self.assert_one_use_of_each(provider.refreshes())

    def test_a_clock_of_the_provider_that_jumps(self):
        provider, _ = self.logged_in(access_token_seconds=16)
        self.mainstay.echo("remote")
        issued = provider.token_requests("authorization_code")[0]["at"]
        until("the token to be older", lambda: time.time() - issued > 5)
        provider.act("clock", shift=3600)
        until("a call", lambda: self.mainstay.call("remote", text="hello") == "hello", PERIOD_SECONDS)
        self.assertEqual(self.outcomes(provider, "refresh_token"), ["ok"])

    def test_a_server_that_is_restarted(self):
        provider, server = self.logged_in()
        server.restart()
        until("a call", lambda: self.mainstay.call("remote", text="hello") == "hello", PERIOD_SECONDS)
        self.assertEqual(len(provider.token_requests()), 1, "it needs no other token")

    def test_servers_have_logins_of_their_own(self):
        provider = self.stage.provider()
        servers = {name: {"url": self.stage.server(provider).url} for name in ("one", "two")}
        self.mainstay.serve(servers)
        self.mainstay.log_in("one", name="ada")
        self.assertEqual(self.mainstay.login("two")["status"], "none")
        self.mainstay.log_in("two", name="grace")
        subjects = [json.loads(self.mainstay.call(name, "whoami"))["subject"] for name in servers]
        self.assertEqual(subjects, ["ada", "grace"])
