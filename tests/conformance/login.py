"""Logins for the driver: the settings of an entry, a person with a browser, and the REST routes."""

import json
import time
import urllib.error
import urllib.request

# The longest time of a login, and of a connection after it.
LOGIN_SECONDS = 10
POLL_SECONDS = 0.05

# The document that auth/basic-cimd knows.
DOCUMENT = "https://conformance-test.local/client-metadata.json"

# Where a name of the scenarios' context stands in an entry.
SETTINGS = {
    "client_id": "clientId",
    "client_secret": "clientSecret",
    "private_key_pem": "privateKey",
    "issuer": "issuer",
}


class LoginFailed(Exception):
    """A login that came to no token, with the reason that Mainstay gives."""


def settings(scenario, context):
    """The `oauth` of the entry, for what the scenario says of its client."""
    oauth = {setting: context[name] for name, setting in SETTINGS.items() if name in context}
    if scenario == "auth/basic-cimd":
        oauth["clientMetadataUrl"] = DOCUMENT
    if scenario.startswith("auth/client-credentials-"):
        oauth["grant"] = "clientCredentials"
    return oauth


class Person:
    """Logs in to one server of a Mainstay, by REST and with a browser that follows every redirect."""

    def __init__(self, base, home, name):
        self.base, self.token, self.server = base, home / "token", f"/api/servers/{name}"

    def log_in(self):
        begun = self.ask("POST", "/login", {})
        if "authorizationUrl" in begun:
            browse(begun["authorizationUrl"])
        login = self.wait("the login is not settled", lambda: settled(self.login()))
        if login["status"] != "valid":
            raise LoginFailed(login.get("loginError") or f"the login is {login['status']}")

    def wait_for_server(self, or_reason=None):
        """Waits for the connection that follows a login, or for this reason that there is none."""

        def is_answered():
            server = self.ask("GET", "")["server"]
            return server["status"] == "connected" or (or_reason and or_reason in json.dumps(server))

        self.wait("the server is not connected", is_answered)

    def wait_for_missing_scopes(self):
        """Waits until Mainstay says that the server asks for more scopes than the login has."""
        self.wait("no scopes are missing", lambda: self.login().get("missingScopes"))

    def login(self):
        return self.ask("GET", "/login")

    def wait(self, complaint, probe):
        """The first true answer of `probe`."""
        deadline = time.monotonic() + LOGIN_SECONDS
        while time.monotonic() < deadline:
            answer = probe()
            if answer:
                return answer
            time.sleep(POLL_SECONDS)
        raise LoginFailed(f"{complaint} after {LOGIN_SECONDS} s: {self.login()}")

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token.read_text().strip()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LOGIN_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise LoginFailed(error.read().decode(errors="replace")) from error


def browse(url):
    """Opens a page. What its last page says is asked of Mainstay, which knows better."""
    try:
        urllib.request.urlopen(url, timeout=LOGIN_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()


def settled(login):
    """The login when nobody is at work on it any more."""
    return login["status"] != "pending" and not login.get("pending") and login
