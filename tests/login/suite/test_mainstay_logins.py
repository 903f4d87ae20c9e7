"""People and machines log in through Mainstay."""

import json
from urllib.parse import parse_qs, urlsplit

from joserfc.jwk import ECKey

from . import oauth
from .mainstay import MainstayTest
from .stage import person
from .web import ask, free_port, until

DOCUMENT_URL = "https://client.example/oauth/client.json"


class LoginsTest(MainstayTest):
    def test_each_provider_with_each_server(self):
        for language in ("node", "python"):
            provider = self.stage.provider(language)
            servers = {kind: self.stage.server(provider, kind, scopes="read") for kind in ("node", "python")}
            if self.mainstay.daemon:
                self.mainstay.daemon.stop()
            names = {f"{language}-{kind}": server for kind, server in servers.items()}
            self.mainstay.serve({name: {"url": server.url} for name, server in names.items()})
            for name in names:
                with self.subTest(name):
                    self.check_login(provider, name)

    def check_login(self, provider, name):
        refused = self.mainstay.daemon.until_status(name, "error")
        self.assertIn(f"mainstay auth login {name}", json.dumps(refused))
        self.assertEqual(self.mainstay.login(name)["status"], "none")
        begun = self.mainstay.begin(name)
        self.assertEqual(begun["redirectUri"], f"http://{self.mainstay.address}/oauth/callback")
        self.assertEqual(self.mainstay.login(name)["status"], "pending")
        callback = person.Browser(name="grace").log_in(begun["authorizationUrl"])
        self.assertEqual(ask("GET", callback).status, 200)
        self.mainstay.daemon.until_status(name, "connected")
        self.mainstay.echo(name)
        who = json.loads(self.mainstay.call(name, "whoami"))
        self.assertEqual(who["subject"], "grace")
        login = self.mainstay.login(name)
        self.assertEqual((login["status"], login["issuer"].rstrip("/")), ("valid", provider.issuer))
        self.assertIn("read", login["scopes"])
        self.assertIn("expiresAt", login)

    def test_the_redirect_is_pasted_over_rest(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        callback = person.Browser().log_in(self.mainstay.begin("remote")["authorizationUrl"])
        login = self.mainstay.rest("POST", "/api/servers/remote/login/answer", {"address": callback})
        self.assertEqual(login["status"], "valid")
        self.mainstay.daemon.until_status("remote", "connected")

    def test_the_redirect_is_pasted_into_the_command(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        command = self.converse("auth", "login", "remote", "--no-browser")
        command.say(person.Browser().log_in(command.url(provider.issuer)))
        self.assertEqual(command.end(), 0, command.shown)
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")

    def test_the_browser_comes_back_to_the_command(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        command = self.converse("auth", "login", "remote", "--no-browser")
        answer = ask("GET", person.Browser().log_in(command.url(provider.issuer)))
        self.assertEqual(answer.status, 200)
        self.assertEqual(command.end(), 0, command.shown)

    def test_status_and_logout(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        self.mainstay.log_in("remote")
        for arguments in (["auth", "status"], ["auth", "status", "remote"]):
            shown = self.mainstay.run(*arguments)
            self.assertEqual((shown.returncode, b"remote" in shown.stdout), (0, True), shown)
        status = json.loads(self.mainstay.run("auth", "status", "remote", "--json").stdout)
        self.assertIn('"valid"', json.dumps(status))
        shown = self.mainstay.run("auth", "logout", "remote")
        self.assertEqual(shown.returncode, 0, shown)
        self.assertEqual(self.mainstay.login("remote")["status"], "none")
        self.assertEqual(provider.report()["logins"], [], "the login is revoked at the provider, too")
        self.assertNotEqual(self.mainstay.call("remote", text="hello"), "hello")

    def test_logout_over_rest_is_final(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        self.mainstay.log_in("remote")
        before = len(provider.token_requests())
        self.mainstay.rest("DELETE", "/api/servers/remote/login")
        self.mainstay.restart()
        self.mainstay.daemon.until_status("remote", "error")
        self.assertEqual(self.mainstay.login("remote")["status"], "none")
        self.assertEqual(len(provider.token_requests()), before)

    def test_a_server_that_is_its_own_authorization_server(self):
        for metadata in ("both", "none"):  # none: the endpoints of 2025-03-26
            with self.subTest(metadata=metadata):
                _, server = self.stage.server_that_is_its_provider(free_port(), metadata=metadata)
                if self.mainstay.daemon:
                    self.mainstay.daemon.stop()
                self.serve(server, f"own-{metadata}")
                self.mainstay.log_in(f"own-{metadata}")
                self.mainstay.echo(f"own-{metadata}")

    def test_a_server_of_fastmcp_that_is_its_own_authorization_server(self):
        self.serve(self.stage.server(None, "python", own=True))
        self.mainstay.log_in("remote")
        self.mainstay.echo("remote")

    def test_challenges_that_say_less(self):
        provider = self.stage.provider()
        kinds = ("none", "bare")
        servers = {kind: {"url": self.stage.server(provider, challenge=kind).url} for kind in kinds}
        self.mainstay.serve(servers)
        for kind in kinds:
            with self.subTest(challenge=kind):
                self.mainstay.log_in(kind)
                self.mainstay.echo(kind)

    def test_a_resource_with_one_slash_more(self):
        provider = self.stage.provider()
        server = self.stage.server(provider, resource="slash")
        self.serve(server)
        self.mainstay.log_in("remote")
        who = json.loads(self.mainstay.call("remote", "whoami"))
        self.assertEqual(who["audience"], f"{server.url}/")

    def test_an_issuer_with_a_path_and_metadata_of_openid_alone(self):
        provider = self.stage.provider(path="/tenant", metadata="oidc")
        self.serve(self.stage.server(provider))
        self.mainstay.log_in("remote")
        self.mainstay.echo("remote")

    def test_tokens_that_are_jwt(self):
        provider = self.stage.provider(token_format="jwt")
        kinds = ("node", "python")
        self.mainstay.serve({kind: {"url": self.stage.server(provider, kind, verify="jwks").url} for kind in kinds})
        for kind in kinds:
            self.mainstay.log_in(kind)
            self.mainstay.echo(kind)

    def test_a_provider_that_requires_the_resource(self):
        provider = self.stage.provider(require_resource=True)
        server = self.stage.server(provider)
        self.serve(server)
        self.mainstay.log_in("remote")
        requests = provider.token_requests("authorization_code")
        self.assertEqual([request["resource"] for request in requests], [server.url])

    def test_refresh_tokens_of_a_provider_that_wants_consent(self):
        # OpenID Connect: offline_access counts only with prompt=consent.
        self.serve(self.stage.server(self.stage.provider(refresh_tokens="strict")))
        self.mainstay.log_in("remote")
        self.assertIs(self.mainstay.login("remote")["renewable"], True)

    def test_a_client_that_was_registered_beforehand(self):
        redirect = f"http://{self.mainstay.address}/oauth/callback"
        client = {
            "client_id": "fixed",
            "client_secret": "fixed-secret",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
        provider = self.stage.provider(registration=False, clients=json.dumps([client]))
        given = {"clientId": "fixed", "clientSecret": "fixed-secret"}
        self.serve(self.stage.server(provider), oauth=given)
        self.mainstay.log_in("remote")
        self.assertEqual(provider.token_requests("authorization_code")[0]["client"], "fixed")

    def test_the_port_of_the_redirect_is_fixed(self):
        port = free_port()
        client = {
            "client_id": "fixed",
            "redirect_uris": [f"http://localhost:{port}/callback"],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
        }
        provider = self.stage.provider(registration=False, clients=json.dumps([client]))
        self.serve(self.stage.server(provider), oauth={"clientId": "fixed", "callbackPort": port})
        self.mainstay.log_in("remote")
        self.mainstay.echo("remote")

    def test_a_client_id_metadata_document(self):
        document = {
            "client_id": DOCUMENT_URL,
            "client_name": "Mainstay",
            "redirect_uris": ["http://127.0.0.1/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        documents = json.dumps({DOCUMENT_URL: document})
        provider = self.stage.provider(registration=False, client_documents=documents)
        self.serve(self.stage.server(provider), oauth={"clientMetadataUrl": DOCUMENT_URL})
        self.mainstay.log_in("remote")
        self.assertEqual(provider.token_requests("authorization_code")[0]["client"], DOCUMENT_URL)

    def test_an_answer_of_another_issuer(self):
        provider = self.stage.provider(iss="wrong")
        self.serve(self.stage.server(provider))
        callback = person.Browser().log_in(self.mainstay.begin("remote")["authorizationUrl"])
        self.assertEqual(ask("GET", callback).status, 400)
        self.assertEqual(provider.token_requests(), [])
        self.assertEqual(self.mainstay.login("remote")["status"], "none")

    def test_a_person_who_refuses(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        callback = person.Browser(refuses=True).log_in(self.mainstay.begin("remote")["authorizationUrl"])
        answer = ask("GET", callback)
        self.assertEqual((answer.status, "the person refuses" in answer.text), (400, True), answer.text)
        self.assertEqual(self.mainstay.login("remote")["status"], "none")
        self.assertEqual(provider.token_requests(), [])

    def test_a_code_is_used_once(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        callback = person.Browser().log_in(self.mainstay.begin("remote")["authorizationUrl"])
        statuses = [ask("GET", callback).status for _ in range(2)]
        self.assertEqual(statuses, [200, 400])
        self.assertEqual(self.outcomes(provider, "authorization_code"), ["ok"])
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")

    def test_an_answer_that_nobody_has_asked_for(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        self.mainstay.begin("remote")
        for query in ("", "?code=x", "?code=x&state=unknown", "?error=access_denied&state=unknown"):
            self.assertEqual(ask("GET", f"http://{self.mainstay.address}/oauth/callback{query}").status, 400)
        self.assertEqual(provider.token_requests(), [])
        self.assertEqual(self.mainstay.login("remote")["status"], "pending")

    def test_a_machine_with_a_secret(self):
        machine = {"client_id": "machine", "client_secret": "machine-secret", **MACHINE}
        provider = self.stage.provider(access_token_seconds=8, clients=json.dumps([machine]))
        given = {"grant": "clientCredentials", "clientId": "machine", "clientSecret": "machine-secret"}
        self.check_machine(provider, "machine", {**given, "scopes": ["read"]})

    def test_a_machine_with_a_private_key(self):
        key = ECKey.generate_key("P-256", {"kid": "one"})
        public = {**key.as_dict(private=False), "use": "sig", "alg": "ES256"}
        keyed = {
            "client_id": "keyed",
            "token_endpoint_auth_method": "private_key_jwt",
            "jwks": {"keys": [public]},
            **MACHINE,
        }
        provider = self.stage.provider(access_token_seconds=8, clients=json.dumps([keyed]))
        pem = key.as_pem(private=True).decode()
        given = {"grant": "clientCredentials", "clientId": "keyed", "privateKey": pem, "scopes": ["read"]}
        self.check_machine(provider, "keyed", given)

    def check_machine(self, provider, client, given):
        """Nobody logs in; an expired token is replaced by another."""
        server = self.stage.server(provider)
        self.serve(server, oauth=given)
        self.mainstay.daemon.until_status("remote", "connected")
        who = json.loads(self.mainstay.call("remote", "whoami"))
        self.assertEqual((who["client"], who["audience"]), (client, server.url))

        def renewed():
            self.mainstay.echo("remote")
            return len(provider.token_requests("client_credentials")) > 1

        until("a second token", renewed)
        self.assertEqual(set(self.outcomes(provider, "client_credentials")), {"ok"})

    def test_a_machine_with_a_wrong_secret(self):
        machine = {"client_id": "machine", "client_secret": "machine-secret", **MACHINE}
        provider = self.stage.provider(clients=json.dumps([machine]))
        given = {"grant": "clientCredentials", "clientId": "machine", "clientSecret": "wrong"}
        self.serve(self.stage.server(provider), oauth=given)
        refused = self.mainstay.daemon.until_status("remote", "error")
        self.assertIn("invalid_client", json.dumps(refused))
        before = len(provider.token_requests())
        for _ in range(5):
            self.assertNotEqual(self.mainstay.call("remote", text="x"), "x")
        self.assertEqual(len(provider.token_requests()), before, "it is not tried again")

    def test_a_device(self):
        for refuses in (False, True):
            provider = self.stage.provider()
            name = f"refuses-{refuses}".lower()
            if self.mainstay.daemon:
                self.mainstay.daemon.stop()
            self.serve(self.stage.server(provider), name)
            command = self.converse("auth", "login", name, "--device")
            address = command.url("user_code=")
            self.assertIsNone(person.Browser(refuses=refuses).log_in(address))
            self.assertEqual(command.end() != 0, refuses, command.shown)
            self.assertEqual(self.mainstay.login(name)["status"], "none" if refuses else "valid")
            if not refuses:
                self.mainstay.daemon.until_status(name, "connected")
                self.mainstay.echo(name)
                self.assertEqual(self.outcomes(provider, oauth.DEVICE_GRANT)[-1], "ok")

    def test_a_device_over_rest(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        begun = self.mainstay.begin("remote", device=True)
        self.assertIn(begun["userCode"].replace("-", ""), begun["completeUrl"].replace("-", ""))
        person.Browser().log_in(begun["completeUrl"])
        self.mainstay.daemon.until_status("remote", "connected")
        self.assertEqual(self.mainstay.login("remote")["status"], "valid")

    def test_a_scope_that_is_lacking(self):
        provider = self.stage.provider()
        server = self.stage.server(provider, scopes="read")
        self.serve(server)
        self.mainstay.log_in("remote")
        refused = self.mainstay.call("remote", "write", text="x")
        self.assertIn("mainstay auth login remote", refused)
        login = self.mainstay.login("remote")
        self.assertEqual((login["status"], login["missingScopes"]), ("valid", ["write"]))
        self.mainstay.echo("remote")
        begun = self.mainstay.begin("remote")
        asked = parse_qs(urlsplit(begun["authorizationUrl"]).query)["scope"][0].split()
        self.assertLessEqual({"read", "write"}, set(asked))
        answer = ask("GET", person.Browser().log_in(begun["authorizationUrl"]))
        self.assertEqual(answer.status, 200, answer.text)
        until("the scope", lambda: self.mainstay.call("remote", "write", text="x") == "written: x")
        self.assertEqual(server.counts()["calls"]["write"], 1)


MACHINE = {"grant_types": ["client_credentials"], "redirect_uris": [], "response_types": []}
