"""Each client logs in for itself: `oauth.perPrincipal`."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from .mainstay import MainstayTest, text
from .stage import person
from .web import ask, until

CALL_SECONDS = 60


class ClientsTest(MainstayTest):
    def serve_each(self, server, *clients: str, **entry) -> dict[str, str]:
        """The tokens of clients that have logins of their own."""
        self.serve(server, oauth={"perPrincipal": True, **entry})
        return {name: self.add_client(name) for name in clients}

    def add_client(self, name: str) -> str:
        return self.mainstay.rest("POST", "/api/tokens", {"name": name})["token"]

    def login_of(self, client: str) -> dict:
        return self.mainstay.rest("GET", f"/api/servers/remote/login?client={client}")

    def log_in_client(self, client: str, **browser):
        begun = self.mainstay.rest("POST", f"/api/servers/remote/login?client={client}", {})
        callback = person.Browser(**browser).log_in(begun["authorizationUrl"])
        self.assertEqual(ask("GET", callback).status, 200)
        self.assertEqual(self.login_of(client)["status"], "valid")

    def whoami(self, token: str | None, path: str = "/mcp") -> str:
        name = "remote__whoami" if path == "/mcp" else "whoami"
        shown = text(self.mainstay.daemon.client(path, token=token).call(name))
        try:
            return json.loads(shown)["subject"]
        except (ValueError, KeyError):
            return shown  # The words of a failure.

    def test_each_client_is_somebody_else_at_a_server_in_node(self):
        self.check_clients("node")

    def test_each_client_is_somebody_else_at_a_server_in_python(self):
        self.check_clients("python")

    def check_clients(self, kind: str):
        provider = self.stage.provider()
        tokens = self.serve_each(self.stage.server(provider, kind), "laptop", "build")
        self.mainstay.log_in("remote", name="operator")
        for token in tokens.values():
            until("the list", lambda: "remote__whoami" in self.mainstay.daemon.client(token=token).names())
        shown = self.whoami(tokens["laptop"])
        self.assertIn("mainstay auth login remote --client laptop", shown)
        self.assertIn(provider.issuer, shown, "the address of the login")
        self.log_in_client("laptop", name="ada")
        self.log_in_client("build", name="grace")
        for path in ("/mcp", "/servers/remote/mcp"):
            self.assertEqual(self.whoami(tokens["laptop"], path), "ada")
            self.assertEqual(self.whoami(tokens["build"], path), "grace")
        for client, name in (("laptop", "ada"), ("build", "grace")):
            answer = self.mainstay.daemon.modern("/mcp", tokens[client], "tools/call", {"name": "remote__whoami"})
            self.assertEqual(json.loads(text(answer))["subject"], name)
        owners = [login.get("client") for login in self.mainstay.rest("GET", "/api/logins")["logins"]]
        self.assertEqual(owners, [None, "build", "laptop"])
        listed = self.mainstay.run("auth", "status").stdout.decode()
        self.assertIn("laptop", listed)
        ids = {login["clientId"] for login in self.mainstay.rest("GET", "/api/logins")["logins"]}
        self.assertEqual(len(ids), 3, "each login has a registration of its own")

        self.mainstay.rest("DELETE", "/api/servers/remote/login?client=laptop")
        self.assertEqual(self.login_of("laptop")["status"], "none")
        self.assertIn("--client laptop", self.whoami(tokens["laptop"]))
        self.assertEqual(self.whoami(tokens["build"]), "grace")
        self.assertEqual(self.mainstay.server("remote")["status"], "connected")

    def test_logins_of_clients_outlast_a_kill_and_are_renewed(self):
        provider = self.stage.provider(access_token_seconds=6)
        tokens = self.serve_each(self.stage.server(provider), "laptop")
        self.mainstay.log_in("remote")
        self.log_in_client("laptop", name="ada")
        self.assertEqual(self.whoami(tokens["laptop"]), "ada")
        before = self.login_of("laptop")["expiresAt"]
        until("a refresh", lambda: self.login_of("laptop")["expiresAt"] != before, 30)
        self.mainstay.restart()
        self.assertEqual(self.whoami(tokens["laptop"]), "ada")
        self.assert_one_use_of_each(provider.refreshes())

    def test_a_client_without_a_token_is_forgotten(self):
        provider = self.stage.provider()
        tokens = self.serve_each(self.stage.server(provider), "laptop", "build")
        self.mainstay.log_in("remote")
        self.log_in_client("laptop", name="ada")
        self.assertEqual(self.whoami(tokens["laptop"]), "ada")
        self.mainstay.rest("DELETE", "/api/tokens/laptop")
        logins = self.mainstay.home.state / "vault" / "logins"
        until("the login to be forgotten", lambda: len(list(logins.glob("*.entry"))) == 1)
        again = self.add_client("laptop")
        self.assertIn("--client laptop", self.whoami(again))

    def test_wrong_owners(self):
        provider = self.stage.provider()
        server = self.stage.server(provider)
        self.serve_each(server, "laptop")
        status, answer = self.mainstay.daemon.rest("GET", "/api/servers/remote/login?client=nobody")
        self.assertEqual((status, answer["error"]), (404, "token_not_found"))
        self.mainstay.daemon.stop()
        self.serve(server)
        status, answer = self.mainstay.daemon.rest("GET", "/api/servers/remote/login?client=laptop")
        self.assertEqual((status, answer["error"]), (409, "no_login"), answer)
        self.assertIn("oauth.perPrincipal", answer["message"])

    def test_a_person_is_asked_in_the_client(self):
        """The official client opens the address of an elicitation, in both eras and at both endpoints."""
        provider = self.stage.provider()
        tokens = self.serve_each(self.stage.server(provider), "laptop")
        self.mainstay.log_in("remote", name="operator")
        for mode in ("legacy", "2026-07-28"):
            for path, tool in (("/mcp", "remote__whoami"), ("/servers/remote/mcp", "whoami")):
                if path != "/mcp" and mode == "legacy":
                    continue  # Without a login, it has no session at the server in which it could be asked.
                with self.subTest(mode=mode, path=path):
                    asked = []
                    shown = asyncio.run(self.call_as(tokens["laptop"], path, tool, mode, asked, "accept"))
                    self.assertEqual(json.loads(shown)["subject"], "ada")
                    self.assertEqual(len(asked), 1)
                    self.assertIn("remote", asked[0].message)
                    # Logged in, nobody is asked again.
                    asyncio.run(self.call_as(tokens["laptop"], path, tool, mode, asked, "accept"))
                    self.assertEqual(len(asked), 1)
                    self.mainstay.rest("DELETE", "/api/servers/remote/login?client=laptop")

    def test_many_calls_are_offered_one_login(self):
        provider = self.stage.provider()
        tokens = self.serve_each(self.stage.server(provider), "laptop")
        self.mainstay.log_in("remote", name="operator")
        with ThreadPoolExecutor(8) as pool:
            shown = list(pool.map(lambda _: self.whoami(tokens["laptop"]), range(8)))
        urls = {json.loads(words)["loginUrl"] for words in shown}
        self.assertEqual(len(urls), 1, shown)
        callback = person.Browser(name="ada").log_in(urls.pop())
        self.assertEqual(ask("GET", callback).status, 200)
        self.assertEqual(self.whoami(tokens["laptop"]), "ada")

    def test_a_person_who_declines(self):
        provider = self.stage.provider()
        tokens = self.serve_each(self.stage.server(provider), "laptop")
        self.mainstay.log_in("remote", name="operator")
        asked = []
        for mode in ("legacy", "2026-07-28"):
            shown = asyncio.run(self.call_as(tokens["laptop"], "/mcp", "remote__whoami", mode, asked, "decline"))
            self.assertIn("the login was declined", shown)
            self.assertIn("--client laptop", shown)
        self.assertEqual(len(asked), 2)

    async def call_as(self, token, path, tool, mode, asked, action) -> str:
        """The text of a tool's answer for a client whose person does `action`."""

        async def answer(_, params):
            asked.append(params)
            if action == "accept":
                threading.Thread(target=lambda: ask("GET", person.Browser(name="ada").log_in(params.url))).start()
            return types.ElicitResult(action=action)

        url = f"http://{self.mainstay.address}{path}"
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=CALL_SECONDS) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, elicitation_callback=answer) as client:
                result = await client.call_tool(tool, {})
        return result.content[0].text
