"""The authorization servers by themselves: what they grant, refuse and pretend."""

import http.client
import json
import unittest

from joserfc.jwk import ECKey

from . import oauth
from .cases import StagedTest
from .oauth import OAuthClient
from .web import ask

RESOURCE = "http://127.0.0.1:1/mcp"
INTROSPECTOR = ("resource-server", "resource-server-secret")


def introspect(issuer: str, token: str) -> dict:
    resource_server = OAuthClient(issuer, *INTROSPECTOR)
    headers = {"authorization": "Basic cmVzb3VyY2Utc2VydmVyOnJlc291cmNlLXNlcnZlci1zZWNyZXQ="}
    return ask("POST", resource_server.metadata["introspection_endpoint"], headers=headers, form={"token": token}).json


class ProviderTest(StagedTest):
    language = "node"

    def provider(self, **settings):
        return self.stage.provider(self.language, **settings)

    def registered(self, provider) -> OAuthClient:
        client = OAuthClient(provider.issuer)
        answer = client.register()
        self.assertEqual(answer.status, 201, answer.text)
        return client


class CommonChecks:
    """Both implementations."""

    def test_code_with_pkce_and_refresh_tokens_that_rotate(self):
        provider = self.provider(access_token_seconds=20)
        client = self.registered(provider)
        answer = client.answer_of_person(client.authorization_url(resource=RESOURCE), name="grace")
        self.assertEqual((answer["state"], answer["iss"]), (client.state, provider.issuer))
        first = client.exchange(answer["code"], resource=RESOURCE).json
        self.assertEqual((first["token_type"], first["expires_in"]), ("Bearer", 20))
        token = introspect(provider.issuer, first["access_token"])
        self.assertEqual((token["active"], token["sub"], token["aud"]), (True, "grace", RESOURCE))
        self.assertIn("read", token["scope"].split())
        second = client.refresh(first["refresh_token"]).json
        self.assertNotEqual(second["refresh_token"], first["refresh_token"])
        self.assertEqual(introspect(provider.issuer, second["access_token"])["aud"], RESOURCE)
        noted = provider.refreshes()
        self.assertEqual([request["outcome"] for request in noted], ["ok"])
        self.assertEqual(noted[0]["client"], client.client_id)
        self.assertEqual(provider.report()["counts"]["refresh_token"], {client.client_id: {"ok": 1}})

    def test_reuse_of_a_rotated_refresh_token_ends_the_login(self):
        provider = self.provider()
        client = self.registered(provider)
        first = client.log_in()
        second = client.refresh(first["refresh_token"]).json
        self.assertEqual(client.refresh(first["refresh_token"]).json["error"], "invalid_grant")
        self.assertEqual(client.refresh(second["refresh_token"]).json["error"], "invalid_grant")
        self.assertFalse(introspect(provider.issuer, second["access_token"])["active"])

    def test_reuse_within_the_grace_is_no_reuse(self):
        client = self.registered(self.provider(reuse_grace_seconds=30))
        first = client.log_in()
        for _ in range(2):
            self.assertEqual(client.refresh(first["refresh_token"]).status, 200)

    def test_a_code_is_good_once_and_with_its_verifier(self):
        client = self.registered(self.provider())
        code = client.answer_of_person(client.authorization_url())["code"]
        right, client.verifier = client.verifier, "x" * 64
        self.assertEqual(client.exchange(code).json["error"], "invalid_grant")
        code = client.answer_of_person(client.authorization_url())["code"]
        tokens = client.exchange(code)
        self.assertEqual(tokens.status, 200, right)
        self.assertEqual(client.exchange(code).json["error"], "invalid_grant")
        self.assertEqual(client.refresh(tokens.json["refresh_token"]).json["error"], "invalid_grant")

    def test_without_pkce_there_is_no_token(self):
        client = self.registered(self.provider())
        url = client.authorization_url(code_challenge=None, code_challenge_method=None)
        answer = client.answer_of_person(url)
        if "code" in answer:  # Authlib sees at the end that there was no challenge.
            answer = client.exchange(answer["code"], code_verifier=None).json
        self.assertEqual(answer["error"], "invalid_request")

    def test_a_person_who_refuses(self):
        provider = self.provider()
        client = self.registered(provider)
        self.assertEqual(client.answer_of_person(client.authorization_url(), refuses=True)["error"], "access_denied")
        provider.act("person", refuses=True)
        self.assertEqual(client.answer_of_person(client.authorization_url())["error"], "access_denied")
        provider.act("person", refuses=False, name="linus")
        client.log_in()
        self.assertEqual([login["person"] for login in provider.report()["logins"]], ["linus"])

    def test_registration_can_be_off(self):
        provider = self.provider(registration=False)
        metadata = OAuthClient(provider.issuer).metadata
        self.assertNotIn("registration_endpoint", metadata)
        self.assertEqual(ask("POST", f"{provider.issuer}/register", body={}).status, 404)

    def test_a_login_that_is_revoked(self):
        provider = self.provider()
        client = self.registered(provider)
        tokens = client.log_in()
        self.assertEqual(provider.act("revoke", client=client.client_id), {"ended": 1})
        self.assertEqual(client.refresh(tokens["refresh_token"]).json["error"], "invalid_grant")
        self.assertFalse(introspect(provider.issuer, tokens["access_token"])["active"])

    def test_access_tokens_that_end_before_their_time(self):
        provider = self.provider()
        client = self.registered(provider)
        tokens = client.log_in()
        self.assertEqual(provider.act("expire"), {"expired": 1})
        self.assertFalse(introspect(provider.issuer, tokens["access_token"])["active"])
        self.assertEqual(client.refresh(tokens["refresh_token"]).status, 200)

    def test_a_clock_that_is_shifted(self):
        provider = self.provider(access_token_seconds=20)
        client = self.registered(provider)
        tokens = client.log_in()
        provider.act("clock", shift=30)
        self.assertFalse(introspect(provider.issuer, tokens["access_token"])["active"])
        self.assertEqual(client.refresh(tokens["refresh_token"]).status, 200)

    def test_faults_that_take_no_effect(self):
        provider = self.provider()
        client = self.registered(provider)
        token = client.log_in()["refresh_token"]
        provider.fault("status", requests=1, retryAfter=3)
        answer = client.refresh(token)
        self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "3"))
        provider.fault("html", requests=1)
        answer = client.refresh(token)
        self.assertEqual((answer.status, answer.headers.get_content_type()), (200, "text/html"))
        provider.fault("reset", requests=1)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            client.refresh(token)
        provider.fault("hang", requests=1)
        with self.assertRaises(TimeoutError):
            ask("POST", client.metadata["token_endpoint"], form={"grant_type": "refresh_token"}, seconds=0.5)
        provider.act("well")
        provider.fault("slow", requests=1, delayMs=200)
        self.assertEqual(client.refresh(token).status, 200)
        outcomes = [request["outcome"] for request in provider.refreshes()]
        self.assertEqual(outcomes, ["fault: status", "fault: html", "fault: reset", "fault: hang", "ok"])

    def test_an_answer_that_is_lost(self):
        provider = self.provider(reuse_grace_seconds=30)
        client = self.registered(provider)
        token = client.log_in()["refresh_token"]
        provider.fault("lostAnswer", requests=1)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            client.refresh(token)
        self.assertEqual([request["outcome"] for request in provider.refreshes()], ["ok"])
        self.assertEqual(client.refresh(token).status, 200)

    def test_a_kill_loses_nothing(self):
        provider = self.provider(state=self.stage.state())
        client = self.registered(provider)
        tokens = client.log_in()
        issuer = provider.issuer
        provider.restart()
        self.assertEqual(provider.issuer, issuer)
        self.assertTrue(introspect(issuer, tokens["access_token"])["active"])
        self.assertEqual(client.refresh(tokens["refresh_token"]).status, 200)
        provider.restart()
        self.assertEqual([request["outcome"] for request in provider.token_requests()], ["ok", "ok"])


class NodeProviderTest(CommonChecks, ProviderTest):
    """oidc-provider."""

    def test_jwt_access_tokens(self):
        from joserfc import jwt
        from joserfc.jwk import KeySet

        provider = self.provider(token_format="jwt")
        client = self.registered(provider)
        tokens = client.log_in(RESOURCE)
        keys = KeySet.import_key_set(ask("GET", client.metadata["jwks_uri"]).json)
        claims = jwt.decode(tokens["access_token"], keys).claims
        self.assertEqual((claims["aud"], claims["iss"], claims["sub"]), (RESOURCE, provider.issuer, "ada"))

    def test_refresh_tokens_only_with_consent(self):
        client = self.registered(self.provider(refresh_tokens="strict"))
        self.assertNotIn("refresh_token", client.log_in())
        answer = client.answer_of_person(client.authorization_url(prompt="consent"))
        self.assertIn("refresh_token", client.exchange(answer["code"]).json)

    def test_a_resource_that_is_required_or_unknown(self):
        client = self.registered(self.provider(require_resource=True, resources=RESOURCE))
        client.log_in(RESOURCE)
        for resource in (None, "http://127.0.0.1:1/other"):
            answer = client.answer_of_person(client.authorization_url(resource=resource))
            self.assertEqual(answer["error"], "invalid_target")

    def test_the_issuer_in_the_answer(self):
        for kind, expected in (("none", None), ("wrong", "https://attacker.example")):
            client = self.registered(self.provider(iss=kind))
            self.assertEqual(client.answer_of_person(client.authorization_url()).get("iss"), expected)

    def test_metadata_at_each_place(self):
        oauth_path, oidc_path = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
        for kind, expected in (("oauth", [200, 404, 404]), ("oidc", [404, 200, 200]), ("none", [404, 404, 404])):
            provider = self.provider(metadata=kind, path="/tenant")
            origin = provider.issuer.removesuffix("/tenant")
            places = [f"{oauth_path}/tenant", f"{oidc_path}/tenant", f"/tenant{oidc_path}"]
            answers = [ask("GET", origin + place) for place in places]
            self.assertEqual([answer.status for answer in answers], expected)
            for answer in answers:
                if answer.status == 200:
                    self.assertEqual(answer.json["issuer"], provider.issuer)
                    self.assertTrue(answer.json["token_endpoint"].startswith(f"{provider.issuer}/"))

    def test_an_issuer_with_a_path(self):
        provider = self.provider(path="/tenant")
        client = OAuthClient.__new__(OAuthClient)
        client.metadata = ask("GET", f"{provider.issuer}/.well-known/openid-configuration").json
        client.client_secret = ""
        self.assertEqual(client.register().status, 201)
        tokens = client.log_in(RESOURCE)
        self.assertEqual(client.refresh(tokens["refresh_token"]).status, 200)

    def test_client_credentials(self):
        key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig", "alg": "ES256"})
        common = {"grant_types": ["client_credentials"], "redirect_uris": [], "response_types": []}
        clients = [
            {"client_id": "machine", "client_secret": "machine-secret", **common},
            {
                "client_id": "keyed",
                "token_endpoint_auth_method": "private_key_jwt",
                "jwks": {"keys": [key.as_dict(private=False)]},
                **common,
            },
        ]
        provider = self.provider(clients=json.dumps(clients))
        machine = OAuthClient(provider.issuer, "machine", "machine-secret")
        granted = machine.token("client_credentials", scope="read", resource=RESOURCE).json
        token = introspect(provider.issuer, granted["access_token"])
        self.assertEqual((token["client_id"], token["scope"], token["aud"]), ("machine", "read", RESOURCE))
        self.assertNotIn("refresh_token", granted)
        wrong = OAuthClient(provider.issuer, "machine", "wrong")
        self.assertEqual(wrong.token("client_credentials").json["error"], "invalid_client")
        keyed = OAuthClient(provider.issuer, "keyed")
        assertion = keyed.assertion(key, provider.issuer)
        proof = {"client_assertion": assertion, "client_assertion_type": oauth.ASSERTION_TYPE}
        self.assertEqual(keyed.token("client_credentials", scope="read", **proof).status, 200)

    def test_a_device(self):
        provider = self.provider()
        client = OAuthClient(provider.issuer)
        client.register(grant_types=[oauth.DEVICE_GRANT, "refresh_token"], redirect_uris=[], response_types=[])
        for refuses in (False, True):
            form = {"client_id": client.client_id, "scope": "read offline_access", "resource": RESOURCE}
            begun = ask("POST", client.metadata["device_authorization_endpoint"], form=form).json
            poll = {"device_code": begun["device_code"]}
            self.assertEqual(client.token(oauth.DEVICE_GRANT, **poll).json["error"], "authorization_pending")
            browser = oauth.person.Browser(refuses=refuses)
            self.assertIsNone(browser.log_in(begun["verification_uri_complete"]))
            answer = client.token(oauth.DEVICE_GRANT, **poll).json
            if refuses:
                self.assertEqual(answer["error"], "access_denied")
                continue
            self.assertEqual(introspect(provider.issuer, answer["access_token"])["aud"], RESOURCE)
            self.assertEqual(client.refresh(answer["refresh_token"]).status, 200)

    def test_a_client_id_metadata_document(self):
        url = "https://client.example/oauth/client.json"
        document = {
            "client_id": url,
            "client_name": "documented",
            "redirect_uris": [oauth.REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        provider = self.provider(registration=False, client_documents=json.dumps({url: document}))
        client = OAuthClient(provider.issuer, url)
        self.assertIs(client.metadata["client_id_metadata_document_supported"], True)
        tokens = client.log_in()
        self.assertEqual(client.refresh(tokens["refresh_token"]).status, 200)


class PythonProviderTest(CommonChecks, ProviderTest):
    """Authlib."""

    language = "python"


