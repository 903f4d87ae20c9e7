"""The state of the authorization server: in memory and, with a path, in a file that a restart reads."""

import hashlib
import json
import os
import secrets
import threading
import time
from pathlib import Path

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin


def fingerprint(token: str | None) -> str | None:
    """Enough to tell tokens apart, and no token."""
    return hashlib.sha256(token.encode()).hexdigest()[:16] if token else None


class Client(ClientMixin):
    def __init__(self, metadata: dict):
        self.metadata = metadata
        self.client_id = metadata["client_id"]

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        redirects = self.metadata.get("redirect_uris") or []
        return redirects[0] if redirects else None

    def get_allowed_scope(self, scope):
        return scope or ""

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri in self.metadata.get("redirect_uris", [])

    def check_client_secret(self, client_secret):
        return secrets.compare_digest(self.metadata.get("client_secret") or "", client_secret)

    def check_endpoint_auth_method(self, method, endpoint):
        return method == self.metadata.get("token_endpoint_auth_method", "client_secret_basic")

    def check_response_type(self, response_type):
        return response_type in self.metadata.get("response_types", ["code"])

    def check_grant_type(self, grant_type):
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


class Code(AuthorizationCodeMixin):
    def __init__(self, values: dict):
        self.values = values
        self.code_challenge = values["code_challenge"]
        self.code_challenge_method = values["code_challenge_method"]

    def get_redirect_uri(self):
        return self.values["redirect_uri"]

    def get_scope(self):
        return self.values["scope"]


class Token(TokenMixin):
    def __init__(self, values: dict, now: float):
        self.values, self.now = values, now

    def check_client(self, client):
        return self.values["client_id"] == client.client_id

    def get_scope(self):
        return self.values["scope"]

    def get_expires_in(self):
        return self.values["expires_in"]

    def is_expired(self):
        return self.values["issued_at"] + self.values["expires_in"] <= self.now

    def is_revoked(self):
        return False

    def get_user(self):
        return self.values["person"]


class State:
    """Tables of JSON objects. A request holds the lock from its begin to its end."""

    TABLES = ("clients", "codes", "tokens", "refresh", "logins", "requests")

    def __init__(self, path: str):
        self.path = Path(path) if path else None
        self.lock = threading.RLock()
        self.shift = 0
        self.clients, self.codes, self.tokens, self.refresh, self.logins = {}, {}, {}, {}, {}
        self.requests: list[dict] = []
        if self.path and self.path.exists():
            self.__dict__.update(json.loads(self.path.read_text()))

    def now(self) -> float:
        return time.time() + self.shift

    def save(self):
        if not self.path:
            return
        text = json.dumps({name: getattr(self, name) for name in self.TABLES})
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self.path)

    def end_login(self, login: str):
        """Nothing that a login has brought is good any more."""
        self.logins.pop(login, None)
        for table in (self.tokens, self.refresh, self.codes):
            for key in [key for key, values in table.items() if values["login"] == login]:
                del table[key]

    def counts(self) -> dict:
        """The number of outcomes by grant and client."""
        counts: dict = {}
        for request in self.requests:
            outcomes = counts.setdefault(request["grant"], {}).setdefault(request["client"], {})
            outcomes[request["outcome"]] = outcomes.get(request["outcome"], 0) + 1
        return counts
