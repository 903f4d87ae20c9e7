"""A small OAuth client, to try the authorization servers without Mainstay."""

import base64
import hashlib
import secrets
import time
from urllib.parse import parse_qsl, urlencode, urlsplit

from .stage import person
from .web import Answer, ask

REDIRECT = "http://127.0.0.1:1/callback"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class OAuthClient:
    def __init__(self, issuer: str, client_id: str = "", client_secret: str = ""):
        self.issuer = issuer
        self.metadata = ask("GET", f"{issuer}/.well-known/oauth-authorization-server").json
        self.client_id, self.client_secret = client_id, client_secret
        self.verifier = self.state = ""

    def register(self, **more) -> Answer:
        metadata = {
            "client_name": "test",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            **more,
        }
        answer = ask("POST", self.metadata["registration_endpoint"], body=metadata)
        if answer.status == 201:
            self.client_id = answer.json["client_id"]
        return answer

    def authorization_url(self, scope: str = "read offline_access", resource: str | None = None, **more) -> str:
        self.verifier, self.state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "scope": scope,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": resource,
            **more,
        }
        given = {name: value for name, value in query.items() if value is not None}
        return f"{self.metadata['authorization_endpoint']}?{urlencode(given)}"

    def answer_of_person(self, url: str, **browser) -> dict:
        """The parameters with which the person comes back."""
        callback = person.Browser(**browser).log_in(url)
        return dict(parse_qsl(urlsplit(callback).query))

    def token(self, grant: str, **form) -> Answer:
        headers = {}
        if self.client_secret:
            pair = f"{self.client_id}:{self.client_secret}".encode()
            headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif "client_assertion" not in form:
            form["client_id"] = self.client_id
        return ask("POST", self.metadata["token_endpoint"], headers=headers, form={"grant_type": grant, **form})

    def exchange(self, code: str, **more) -> Answer:
        form = {"code": code, "redirect_uri": REDIRECT, "code_verifier": self.verifier, **more}
        return self.token("authorization_code", **form)

    def log_in(self, resource: str | None = None, scope: str = "read offline_access", **browser) -> dict:
        answer = self.answer_of_person(self.authorization_url(scope, resource), **browser)
        tokens = self.exchange(answer["code"], resource=resource)
        assert tokens.status == 200, tokens.text
        return tokens.json

    def refresh(self, refresh_token: str, **more) -> Answer:
        return self.token("refresh_token", refresh_token=refresh_token, **more)

    def assertion(self, key, audience: str) -> str:
        """A JWT by which a client with a private key says who it is (RFC 7523)."""
        from joserfc import jwt

        now = int(time.time())
        claims = {"iss": self.client_id, "sub": self.client_id, "aud": audience, "jti": secrets.token_hex(8)}
        return jwt.encode({"alg": "ES256"}, {**claims, "iat": now, "exp": now + 60}, key)
