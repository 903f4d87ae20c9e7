"""No secret of a login is where somebody could read it: logs, records, answers, outputs, the process list."""

import contextlib
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from .mainstay import MainstayTest
from .stage import person
from .web import ask, until

ANSWERS = [
    "/api/servers",
    "/api/servers/remote",
    "/api/servers/remote/login",
    "/api/servers/remote/logs",
    "/api/logins",
    "/api/config",
    "/api/config/text",
    "/api/config/history",
    "/api/call-records?limit=100",
    "/api/events/recent",
    "/api/about",
    "/api/health",
    "/metrics",
]
COMMANDS = [
    ["list", "--json"],
    ["get", "remote"],
    ["auth", "status"],
    ["auth", "status", "remote", "--json"],
    ["logs", "remote"],
    ["doctor"],
]
SECONDS = 60


def process_list() -> bytes:
    """Arguments and environments, as `ps` shows them to everybody or to the owner."""
    shown = b""
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                shown += (process / file).read_bytes()
    return shown


class SecretsTest(MainstayTest):
    def test_no_secret_is_anywhere(self):
        given = {
            "client_id": "fixed",
            "client_secret": "canary-client-secret",
            "redirect_uris": [f"http://{self.mainstay.address}/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
        clients = self.folder / "clients.json"  # not in the process list of the authorization server
        clients.write_text(json.dumps([given]))
        provider = self.stage.provider(
            tell_secrets=True, access_token_seconds=6, clients=str(clients), registration=False
        )
        entry = {"clientId": "fixed", "clientSecret": "canary-client-secret"}
        server = self.stage.server(provider)
        self.mainstay.home.environment["RUST_LOG"] = "trace"
        self.serve(server, oauth=entry)

        # An attempt that fails, one by a command, and a few refreshes, good and bad.
        begun = self.mainstay.begin("remote")
        state = parse_qs(urlsplit(begun["authorizationUrl"]).query)["state"][0]
        ask("GET", person.Browser(refuses=True).log_in(begun["authorizationUrl"]))
        command = self.converse("auth", "login", "remote", "--no-browser")
        address = command.url(provider.issuer)
        processes = process_list()
        callback = person.Browser().log_in(address)
        command.say(callback)
        self.assertEqual(command.end(), 0, command.shown)
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")
        until("a refresh", lambda: "ok" in self.outcomes(provider, "refresh_token"), SECONDS)
        provider.fault("html", requests=2)
        until("more refreshes", lambda: self.outcomes(provider, "refresh_token").count("ok") > 1, SECONDS)
        provider.act("revoke")
        until("the end", lambda: self.mainstay.login("remote")["status"] == "ended", SECONDS)
        processes += process_list()

        secrets = [*provider.report()["secrets"], "canary-client-secret", state]
        secrets.append(parse_qs(urlsplit(callback).query)["code"][0])
        self.assertGreaterEqual(len(secrets), 8)
        shown = {"the process list": processes, f"auth login, without {address}": command.shown.replace(address, "").encode()}
        for path in ANSWERS:
            headers = {"authorization": f"Bearer {self.mainstay.daemon.token}"}
            status, _, text = self.mainstay.daemon.ask("GET", path, None, headers)
            self.assertEqual(status, 200, path)
            shown[path] = text.encode()
        for arguments in COMMANDS:
            result = self.mainstay.run(*arguments)
            shown[f"mainstay {' '.join(arguments)}"] = result.stdout + result.stderr
        shown["the daemon's log"] = self.mainstay.daemon.log.read_bytes()
        shown["the state directory"] = self.mainstay.home.kept()
        for place, content in shown.items():
            for secret in secrets:
                # Only its beginning is shown where this fails.
                self.assertFalse(secret.encode() in content, f"{secret[:6]}… is in {place}")

    def test_the_page_of_the_callback_tells_nothing(self):
        provider = self.stage.provider(tell_secrets=True)
        self.serve(self.stage.server(provider))
        callback = person.Browser().log_in(self.mainstay.begin("remote")["authorizationUrl"])
        for answer in (ask("GET", callback), ask("GET", callback)):
            for secret in provider.report()["secrets"]:
                self.assertNotIn(secret, answer.text + str(answer.headers))
            self.assertIn("no-store", answer.headers["cache-control"])
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
