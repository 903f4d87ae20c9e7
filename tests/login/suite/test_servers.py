"""The MCP servers by themselves: whom they refuse, how they say it, and whom they let in."""

import json
import urllib.parse

from .cases import StagedTest
from .oauth import OAuthClient
from .web import Answer, ask, free_port

REVISION = "2025-06-18"


def post(url: str, token: str | None, method: str, params: dict, session: str | None = None) -> Answer:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": REVISION}
    if token:
        headers["authorization"] = f"Bearer {token}"
    if session:
        headers["mcp-session-id"] = session
    return ask("POST", url, headers=headers, body={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def initialize(url: str, token: str | None = None) -> Answer:
    about = {"name": "test", "version": "1"}
    return post(url, token, "initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about})


def call(url: str, token: str, tool: str, arguments: dict) -> Answer:
    begun = initialize(url, token)
    assert begun.status == 200, begun.text
    params = {"name": tool, "arguments": arguments}
    return post(url, token, "tools/call", params, begun.headers["mcp-session-id"])


def text(answer: Answer) -> str:
    """The text of a tool's result, which may be in an event."""
    lines = [line.removeprefix("data:").strip() for line in answer.text.splitlines()]
    message = next(json.loads(line) for line in lines if line.startswith("{"))
    return message["result"]["content"][0]["text"]


class ServersTest(StagedTest):
    def registered(self, issuer: str) -> OAuthClient:
        client = OAuthClient(issuer)
        answer = client.register()
        self.assertEqual(answer.status, 201, answer.text)
        return client

    def check(self, provider, server):
        """Refuses without a token, says where to get one, and accepts it."""
        refused = initialize(server.url)
        self.assertEqual(refused.status, 401)
        challenge = refused.headers["www-authenticate"]
        metadata = f"{server.origin}/.well-known/oauth-protected-resource/mcp"
        self.assertIn(f'resource_metadata="{metadata}"', challenge)
        resource = ask("GET", metadata).json
        self.assertEqual(resource["resource"], server.url)
        self.assertEqual([one.rstrip("/") for one in resource["authorization_servers"]], [provider.issuer])
        token = self.registered(provider.issuer).log_in(server.url, name="grace")["access_token"]
        self.assertEqual(text(call(server.url, token, "echo", {"text": "hello"})), "hello")
        who = json.loads(text(call(server.url, token, "whoami", {})))
        self.assertEqual((who["subject"], "read" in who["scopes"]), ("grace", True))
        self.assertEqual(initialize(server.url, f"{token}x").status, 401)
        return token

    def test_each_server_with_each_provider(self):
        for language in ("node", "python"):
            provider = self.stage.provider(language)
            for server in ("node", "python"):
                with self.subTest(provider=language, server=server):
                    self.check(provider, self.stage.server(provider, server))

    def test_tokens_that_are_jwt(self):
        provider = self.stage.provider(token_format="jwt")
        for language in ("node", "python"):
            with self.subTest(server=language):
                self.check(provider, self.stage.server(provider, language, verify="jwks"))

    def test_a_token_for_another_server_is_refused(self):
        provider = self.stage.provider(token_format="jwt")
        for language in ("node", "python"):
            token = self.registered(provider.issuer).log_in("http://127.0.0.1:1/mcp")["access_token"]
            server = self.stage.server(provider, language, verify="jwks")
            self.assertEqual(initialize(server.url, token).status, 401)

    def test_a_scope_that_is_lacking(self):
        provider = self.stage.provider()
        server = self.stage.server(provider, scopes="read")
        client = self.registered(provider.issuer)
        token = client.log_in(server.url)["access_token"]
        answer = call(server.url, token, "write", {"text": "x"})
        self.assertEqual(answer.status, 403)
        challenge = answer.headers["www-authenticate"]
        self.assertIn('error="insufficient_scope"', challenge)
        self.assertIn('scope="read write"', challenge)
        more = client.log_in(server.url, scope="read write")["access_token"]
        self.assertEqual(text(call(server.url, more, "write", {"text": "x"})), "written: x")

    def test_challenges_that_say_less(self):
        provider = self.stage.provider()
        for kind, expected in (("none", None), ("bare", "Bearer")):
            refused = initialize(self.stage.server(provider, challenge=kind).url)
            self.assertEqual((refused.status, refused.headers["www-authenticate"]), (401, expected))

    def test_a_resource_with_one_slash_more(self):
        provider = self.stage.provider()
        server = self.stage.server(provider, resource="slash")
        metadata = ask("GET", f"{server.origin}/.well-known/oauth-protected-resource/mcp").json
        self.assertEqual(metadata["resource"], f"{server.url}/")
        token = self.registered(provider.issuer).log_in(f"{server.url}/")["access_token"]
        self.assertEqual(initialize(server.url, token).status, 200)

    def test_a_server_that_is_its_own_authorization_server(self):
        provider, server = self.stage.server_that_is_its_provider(free_port())
        refused = initialize(server.url)
        self.assertEqual((refused.status, "resource_metadata" in refused.headers["www-authenticate"]), (401, False))
        self.assertEqual(ask("GET", f"{server.origin}/.well-known/oauth-protected-resource/mcp").status, 404)
        metadata = ask("GET", f"{server.origin}/.well-known/oauth-authorization-server").json
        self.assertEqual((metadata["issuer"], server.origin), (server.origin, provider.issuer))
        for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
            self.assertEqual(urllib.parse.urljoin(metadata[endpoint], "/"), f"{server.origin}/")
        token = self.registered(server.origin).log_in()["access_token"]
        self.assertEqual(text(call(server.url, token, "echo", {"text": "hello"})), "hello")

    def test_a_server_of_fastmcp_that_is_its_own_authorization_server(self):
        server = self.stage.server(None, "python", own=True)
        self.assertEqual(initialize(server.url).status, 401)
        client = self.registered(server.origin)
        tokens = client.exchange(client.answer_of_person(client.authorization_url("read"))["code"]).json
        self.assertEqual(text(call(server.url, tokens["access_token"], "echo", {"text": "hello"})), "hello")
        self.assertEqual(client.refresh(tokens["refresh_token"]).status, 200)

    def test_counts(self):
        provider = self.stage.provider()
        server = self.stage.server(provider)
        self.check(provider, server)
        counts = server.counts()
        self.assertEqual(counts["calls"], {"echo": 1, "whoami": 1})
        self.assertEqual(counts["answers"]["401"], 2)

    def test_the_same_address_after_a_restart(self):
        provider = self.stage.provider()
        for language in ("node", "python"):
            server = self.stage.server(provider, language)
            url = server.url
            server.restart()
            self.assertEqual(server.url, url)
            self.assertEqual(initialize(url).status, 401)
