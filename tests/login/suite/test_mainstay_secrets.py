"""No secret is where somebody could read it: files, logs, records, traces, answers, outputs, the process list.

The peers say back whatever they are sent, so that each secret comes to every place that has words of others.
"""

import base64
import json
import secrets
import shlex
from urllib.parse import parse_qs, quote, urlsplit

from joserfc.jwk import ECKey

from .canaries import Canaries, ProcessWatch, files_below
from .loud import SECRETS, Collector, LoudProvider, LoudServer
from .mainstay import MainstayTest, text
from .stage import person
from .web import ask, until

# GET routes that no answer can be had of here: a stream, and one for the session of a browser.
LEFT_OUT = ("/api/events", "/api/session")
COMMANDS = [
    "list --json",
    "list -o wide",
    "health",
    "events",
    "history",
    "stats",
    "records",
    "records --json",
    "records export --format jsonl",
    "tools",
    "tools --json",
    "auth status",
    "auth status --json",
    "token list",
    "secret list",
    "config show",
    "config show --defaults",
    "config history",
    "config history show 1",
    "validate",
    "reload",
    "doctor",
    "doctor --json",
]
COMMANDS_OF_A_SERVER = ["get {}", "get {} --json", "logs {} -n 10000", "auth status {}"]
# These fail where a server is not well, has no login, or is configured wrongly.
MAY_FAIL = ("health", "doctor", "auth", "validate")
# They write a file.
WRITING_COMMANDS = {"records export --format sqlite --output": "calls.sqlite", "doctor --bundle": "bundle.json"}
# Where the configuration stands as it was written. docs/configuration.md, "Earlier versions", says so of the second.
CONFIGURATION = ("file servers.json", "file state/config-history/")
SECONDS = 60
# More than the server's log knows.
MANY_CLIENTS = 9
MANY_HEADERS = 9
# So long are the words of an authorization server that are kept, but for a part of a token.
ALMOST_CUT = "." * 140


class SecretsTest(MainstayTest):
    def setUp(self):
        super().setUp()
        self.home = self.mainstay.home
        self.canaries = Canaries()
        self.watch = ProcessWatch()
        self.addCleanup(self.watch.close)
        self.collector = self.peer(Collector())
        config = str(self.home.path / "servers.json")
        self.home.environment |= {"MAINSTAY_LOG": "trace", "MAINSTAY_KEYRING": "off", "MAINSTAY_CONFIG": config}
        # What was shown besides what `everything` asks for.
        self.shown: dict[str, bytes] = {}

    def peer(self, peer):
        self.addCleanup(peer.close)
        return peer

    def provider(self, **settings) -> LoudProvider:
        return self.peer(LoudProvider(self.stage, **settings))

    def loud(self, provider: LoudProvider | None = None, **how) -> LoudServer:
        return self.peer(LoudServer(provider.issuer if provider else "", **how))

    def serve_traced(self, servers: dict, **settings):
        # A token for another daemon. No child gets it.
        variable = self.canaries.new("the variable MAINSTAY_TOKEN", "environ of no server")
        self.home.environment["MAINSTAY_TOKEN"] = variable
        self.mainstay.serve(servers, **{"telemetry": {"endpoint": self.collector.origin}, **settings})
        del self.home.environment["MAINSTAY_TOKEN"]

    def call_all(self, server: str, tools=LoudServer.TOOLS, token: str | None = None):
        client = self.mainstay.daemon.client(token=token)
        for tool in tools:
            client.call(f"{server}__{tool}", {"text": "x"})

    def note_secrets(self, provider: LoudProvider, *expected: str):
        """Looks for all that a provider has seen, which has to be at least this."""
        self.assertLessEqual(set(expected), provider.secrets.keys())
        for what, seen in provider.secrets.items():
            for secret in seen:
                self.canaries.add(what, secret)

    # Where secrets are looked for.

    def show(self, place: str, *answers):
        self.shown[place] = "\n".join(map(str, answers)).encode()

    def show_request(self, method: str, path: str, body=None, expected=(200,)):
        headers = {"authorization": f"Bearer {self.mainstay.daemon.token}", "content-type": "application/json"}
        status, answered, text = self.mainstay.daemon.ask(method, path, body, headers, SECONDS)
        self.assertIn(status, expected, f"{method} {path}: {text}")
        # Not the body, which may be a secret.
        self.show(f"{method} {path}" + (f", request {len(self.shown)}" if body else ""), answered, text)

    def show_command(self, command: str, *arguments):
        result = self.mainstay.run(*shlex.split(command), *arguments)
        expected = (0, 1, 2) if command.startswith(MAY_FAIL) else (0,)
        self.assertIn(result.returncode, expected, f"mainstay {command}: {result}")
        self.shown[f"mainstay {command}"] = result.stdout + result.stderr

    def show_answers(self):
        """Each GET route of REST, for each server, record, object and version."""
        for route, methods in self.mainstay.rest("GET", "/api/openapi.json")["paths"].items():
            if "get" in methods and route not in LEFT_OUT:
                for path in self.addresses(route):
                    self.show_request("GET", path, expected=(200, 409) if path.endswith("/login") else (200,))
        self.show_request("GET", "/metrics")

    def addresses(self, route: str) -> list[str]:
        """A route with each value of its parameter."""
        get = self.mainstay.rest
        match route:
            case "/api/call-records/export":
                return [f"{route}?format={format}" for format in ("csv", "jsonl")]
            case "/api/call-records/{id}":
                return [f"/api/call-records/{it['id']}" for it in get("GET", "/api/call-records?limit=1000")["calls"]]
            case "/api/objects/{cid}":
                records = get("GET", "/api/call-records?limit=1000")["calls"]
                cids = {record[key] for record in records for key in ("arguments_cid", "result_cid") if key in record}
                return [f"/api/objects/{cid}" for cid in cids]
            case "/api/access/explain":
                return [f"{route}?principal=anonymous&server={it['name']}" for it in get("GET", "/api/servers")["servers"]]
            case "/api/config/history/{version}":
                return [f"/api/config/history/{it['version']}" for it in get("GET", "/api/config/history")["versions"]]
        if "{name}" in route:
            return [route.replace("{name}", it["name"]) for it in get("GET", "/api/servers")["servers"]]
        self.assertNotIn("{", route, "nothing is known to put there")
        return [route]

    def show_outputs(self):
        for command in COMMANDS:
            self.show_command(command)
        for command, file in WRITING_COMMANDS.items():
            self.show_command(command, self.home.path / file)
        for server in self.mainstay.rest("GET", "/api/servers")["servers"]:
            for command in COMMANDS_OF_A_SERVER:
                self.show_command(command.format(server["name"]))

    def everything(self) -> dict[str, bytes]:
        """All that Mainstay shows and keeps. Ends the daemon."""
        self.show_answers()
        self.show_outputs()
        if self.mainstay.rest("GET", "/api/call-records")["total_count"]:
            until("traces", lambda: self.collector.received)
        self.mainstay.daemon.stop()
        places = {**self.shown, "traces": b"\n".join(self.collector.received)}
        places["the daemon's stdout"] = self.mainstay.daemon.process.stdout.read()
        places |= {f"file {path}": content for path, content in files_below(self.home.path).items()}
        return places | self.watch.places()

    def assert_no_leaks(self):
        self.canaries.add("the control token", self.mainstay.daemon.token, "file state/token")
        vault = self.home.state / "vault" / "key"
        if vault.exists():
            key = vault.read_text().strip()
            for written in (key, bytes.fromhex(key)):
                self.canaries.add("the key of the vault", written, "file state/vault/key")
        places = self.everything()
        self.assertIn(b" INFO ", places["file daemon.log"], "it is verbose")
        for expected in ("file daemon.log", "file state/journal/journal.db", "GET /api/config", "mainstay doctor"):
            self.assertTrue(places[expected], expected)
        leaks = self.canaries.leaks(places)
        if leaks:
            self.fail(f"{len(leaks)} leaks\n" + "\n".join(leaks))

    # What has secrets.

    def test_the_secrets_of_a_configuration(self):
        # Secrets of the vault are in no file.
        bearer, header, env, export, hook = (
            self.kept(name) for name in ("bearer", "header", "env", "telemetry", "webhook")
        )
        self.canaries.homes.append(("the secret env of the vault", "environ of process"))
        plain = {name: self.canaries.new(name, *CONFIGURATION) for name in ("a header", "a bearer token", "a variable")}
        self.canaries.homes.append(("a variable", "environ of process"))
        password = self.canaries.new("a proxy's password", *CONFIGURATION)
        query = self.canaries.new("a key in an address", *CONFIGURATION)
        keyed, bare, queried, proxied, down = (self.loud() for _ in range(5))
        alerted = self.peer(Collector())
        process = self.home.hostile("process", tools=["env", "echo", "reflect"])
        complain = ["-c", 'echo "I have $SECRET and $PLAIN" >&2; exec "$@"', "-"]
        servers = {
            "keyed": {
                "url": keyed.url,
                "headers": {"x-custom": "${keyring:header}"},
                "bearerToken": "${keyring:bearer}",
            },
            "plain": {
                "url": bare.url,
                "headers": {"x-custom": plain["a header"]},
                "bearerToken": plain["a bearer token"],
            },
            # It leaked here once: of a key in a query, where the server says it back decoded: `secrets.rs` knows it as it is written.
            "queried": {"url": f"{queried.url}?key={quote(query, safe='')}"},
            "proxied": {"url": proxied.url, "proxy": f"http://me:{quote(password, safe='')}@{proxied.address}"},
            "process": {
                "command": "/bin/sh",
                "args": [*complain, process["command"], *process["args"]],
                "env": {"SECRET": "${keyring:env}", "PLAIN": plain["a variable"]},
            },
            "other": self.home.hostile("other", tools=["env"]),
        }
        for failing in ("broken", "refused", "forbidden"):
            servers[failing] = {"url": f"{down.origin}/{failing}", "bearerToken": "${keyring:bearer}"}
        alert = {"url": f"{alerted.origin}/${{keyring:webhook}}", "headers": {"x-hook": "${keyring:webhook}"}}
        self.serve_traced(
            servers,
            ownTools=["meta", "external", "activity", "records", "control"],
            telemetry={"endpoint": self.collector.origin, "headers": {"authorization": "Bearer ${keyring:telemetry}"}},
            alerts=[{"on": ["server_down"], "afterMs": 1, "webhook": alert}],
        )
        for name in ("keyed", "plain", "queried", "proxied", "process", "other"):
            self.mainstay.daemon.until_status(name, "connected")
        # It leaked here once: `catalogs` keeps what servers say of themselves as it is.
        for name in ("keyed", "plain", "queried", "proxied"):
            self.call_all(name)
        self.call_all("process", ("env", "echo", "reflect"))
        self.call_all("other", ("env",))
        # A client sends the secret of a server in its arguments, and Mainstay's own tools show what they know.
        self.mainstay.daemon.client().call("process__echo", {"text": env})
        self.canaries.homes.append(("the secret env of the vault", "file process.received"))
        own = self.mainstay.daemon.client(token=self.mainstay.daemon.token)
        for tool in ("list_servers", "external_list_servers", "get_call_records", "get_logs"):
            answer = own.call(tool, {"server": "keyed"} if tool == "get_logs" else {})
            self.assertIn("result", answer)
            self.show(f"the tool {tool}", answer)

        read = self.mainstay.rest("GET", "/api/config/text")
        self.show_request("POST", "/api/config/check", {"text": read["text"]})
        self.show_request("POST", "/api/reload", {"dryRun": True})
        # It leaked here once: what a server says of itself when it is tried is shown as it is.
        self.show_request("POST", "/api/servers/try", {"name": "tried", **servers["keyed"]})
        self.show_request("POST", "/api/servers/try", {"name": "tried", **servers["refused"]})
        # A command without the daemon, which has a journal of its own.
        called = self.mainstay.run("call", "keyed/echo", "--config", self.home.path / "servers.json")
        self.assertEqual(called.returncode, 0, called)
        self.show_request("PUT", "/api/config/text", {"text": read["text"], "digest": read["digest"]})
        until("an alert", lambda: hook in alerted.heard)
        until("traces", lambda: export in self.collector.heard)
        for secret, peer in ((bearer, keyed), (header, keyed), (plain["a header"], bare)):
            self.assertIn(secret, peer.heard)
        environments = [content for place, content in self.watch.places().items() if "environ of process" in place]
        self.assertTrue(any(env.encode() in content for content in environments))
        self.assertTrue(self.watch.has_seen("other"))
        self.assert_no_leaks()

    def kept(self, name: str) -> str:
        """A secret that is kept by `mainstay secret set`."""
        secret = self.canaries.new(f"the secret {name} of the vault")
        file = self.folder / "secret"
        file.write_text(secret)
        self.show_command(f"secret set {name} --from-file", file)
        file.unlink()
        return secret

    def test_the_secrets_of_a_helper(self):
        # A line for the shell is an argument of the shell, and of what it starts, with the variables that it sets.
        own = ("cmdline of helped", "environ of helped")
        variable = self.canaries.new("a variable in a helper's line", *CONFIGURATION, *own)
        argument = self.canaries.new("an argument in a helper's line", *CONFIGURATION, *own)
        output = self.canaries.new("a helper's output", "file helper.json")
        first = self.canaries.new("the first header of many", "file helper.json")
        (self.home.path / "helper.json").write_text(json.dumps({"x-output": output}))
        many = {"x-first": first, **{f"x-{number}": f"value-{number}" for number in range(MANY_HEADERS)}}
        (self.home.path / "many.helper.json").write_text(json.dumps(many))
        self.canaries.homes.append(("the first header of many", "file many.helper.json"))
        script = self.home.path / "helper.sh"
        script.write_text('while ! test -e "$1"; do sleep 0.05; done; echo "the helper has $OF_LINE" >&2; cat "$2"\n')
        helped, many_headers = self.loud(), self.loud()
        go, printed = self.home.path / "go", self.home.path / "helper.json"
        line = f"OF_LINE='{variable}' /bin/sh {script} {go} {printed} '{argument}'"
        # It leaked here once: a secret in the line is shown wherever the configuration or the entry is, and where the helper says it
        # on stderr: the line is no secret to `masking.rs` and to `secrets.rs`.
        self.serve_traced(
            {
                "helped": {"url": helped.url, "headersHelper": line},
                # It leaked here once: the log of a server knows its last eight credentials; of nine headers the first is not known.
                "many": {"url": many_headers.url, "headersHelper": f"cat {self.home.path}/many.helper.json"},
            }
        )
        until("the helper in the process list", lambda: self.watch.has_seen("helped"))
        go.touch()
        for name, peer, secret in (("helped", helped, output), ("many", many_headers, first)):
            self.mainstay.daemon.until_status(name, "connected")
            self.call_all(name)
            self.assertIn(secret, peer.heard)
        self.assert_no_leaks()

    def test_a_helper_whose_output_is_wrong(self):
        servers, output = {}, {}
        what = {"name": "a header's name", "value": "a wrong header's value", "text": "an output that is no JSON"}
        secret = {kind: self.canaries.new(words, f"file {kind}.json") for kind, words in what.items()}
        # It leaked here once: the name of a header that cannot be sent is quoted; here it is the value.
        output["name"] = json.dumps({secret["name"]: "x-token"})
        output["value"] = json.dumps({"x-token": secret["value"] + "\x01"})
        output["text"] = f"Token: {secret['text']}"
        for kind, text in output.items():
            file = self.home.path / f"{kind}.json"
            file.write_text(text)
            servers[kind] = {"url": self.loud().url, "headersHelper": f"cat {file}"}
        # The program of a line is named in reasons. Once the second word of a variable's value was taken for it.
        halves = [secrets.token_hex(16) for _ in range(2)]
        for half in halves:
            self.canaries.add("a value with a blank", half, *CONFIGURATION, "cmdline of words")
        servers["words"] = {"url": self.loud().url, "headersHelper": f"TOKEN='{' '.join(halves)}' false"}
        self.serve_traced(servers)
        for name in servers:
            until(f"the reason of {name}", lambda: "headersHelper" in self.mainstay.server(name).get("lastError", ""))
        self.assert_no_leaks()

    def test_the_secrets_of_a_login(self):
        """The client is registered beforehand, and has a secret."""
        secret = self.canaries.new("client_secret", *CONFIGURATION)
        given = {
            "client_id": "fixed",
            "client_secret": secret,
            "redirect_uris": [f"http://{self.mainstay.address}/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
        clients = self.folder / "clients.json"  # not in the process list of the authorization server
        clients.write_text(json.dumps([given]))
        provider = self.provider(access_token_seconds=6, clients=str(clients), registration=False)
        entry = {"clientId": "fixed", "clientSecret": secret}
        self.serve_traced({"remote": {"url": self.loud(provider).url, "oauth": entry}})

        # A person refuses. Until then the login waits for one.
        begun = self.mainstay.begin("remote")
        self.canaries.add("state", parse_qs(urlsplit(begun["authorizationUrl"]).query)["state"][0], "auth login")
        self.show_answers()
        self.show("callback of a refusal", ask("GET", person.Browser(refuses=True).log_in(begun["authorizationUrl"])))
        self.fail_to_log_in("remote", provider)
        self.converse_about_a_login(provider)
        self.call_all("remote")

        # Refreshes fail, too, and work in between.
        provider.quote("refresh_token", plain=True, status=500, behind=ALMOST_CUT)
        provider.quote("body", plain=True, status=500)
        until("refreshes", lambda: "ok" in self.outcomes(provider.behind, "refresh_token"), SECONDS)
        # It leaked here once: the first call with a new token has the secrets on record that were known before.
        self.call_all("remote", ("error", "echo"))
        provider.garble()
        until("a garbled answer", lambda: "error" in self.mainstay.login("remote").get("lastRefresh", {}), SECONDS)
        until("the end", lambda: self.mainstay.login("remote")["status"] == "ended", SECONDS)
        self.mainstay.log_in("remote")
        provider.quote("client_secret")
        until("the end", lambda: self.mainstay.login("remote")["status"] == "ended", SECONDS)
        self.note_secrets(provider, "code", "code_verifier", "client_secret", "access_token", "refresh_token")
        self.assert_no_leaks()

    def fail_to_log_in(self, name: str, provider: LoudProvider):
        """The authorization server refuses the code, and says back what it was sent; or its answer cannot be read."""
        # It leaked here once: of a client's secret in the header `authorization`, as it is or decoded; of a parameter in a form, as
        # it stands there; of a token's beginning, where the words are cut; of tokens in an answer that is no JSON.
        for what in ("code", "code_verifier", "client_secret", "authorization", "body"):
            provider.quote(what)
            self.fail_once(name, f"{what} in an error")
        for what in ("code", "client_secret", "body"):
            provider.quote(what, plain=True, status=500)
            self.fail_once(name, f"{what} in a text")
        provider.quote("code", plain=True, status=500, behind=ALMOST_CUT)
        self.fail_once(name, "a part of the code in a text")
        provider.garble()
        self.fail_once(name, "tokens in an answer that is cut off")

    def fail_once(self, name: str, how: str):
        answer = ask("GET", person.Browser().log_in(self.mainstay.begin(name)["authorizationUrl"]))
        self.assertEqual(answer.status, 400, how)
        self.show(f"callback of {name}, {how}", answer.text, answer.headers)
        self.show(f"login to {name}, {how}", self.mainstay.login(name), self.mainstay.server(name))

    def converse_about_a_login(self, provider: LoudProvider):
        """A command logs in. Its person first pastes less than the address."""
        command = self.converse("auth", "login", "remote", "--no-browser")
        callback = person.Browser().log_in(command.url(provider.issuer))
        code = parse_qs(urlsplit(callback).query)["code"][0]
        # It leaked here once: what is no address is quoted, and so a code alone.
        command.say(code)
        until("an error", lambda: "is no address" in command.shown)
        self.show_request("POST", "/api/servers/remote/login/answer", {"address": code}, (502,))
        command.say(callback)
        self.assertEqual(command.end(), 0, command.shown)
        self.shown["auth login"] = command.shown.encode()
        self.mainstay.daemon.until_status("remote", "connected")

    def test_the_secrets_of_a_client_that_is_registered(self):
        """Mainstay registers itself, and gets a secret. Logins with a code on another device, and by a browser."""
        provider = self.provider(auth_methods=("client_secret_basic",))
        self.serve_traced({"remote": {"url": self.loud(provider).url}})
        begun = self.mainstay.begin("remote", device=True)
        self.canaries.add("user code", begun["userCode"])
        self.show_answers()
        provider.quote("device_code")
        until("an error", lambda: "loginError" in self.mainstay.login("remote"), SECONDS)
        self.show("login after a device's error", self.mainstay.login("remote"))
        self.fail_to_log_in("remote", provider)
        self.mainstay.log_in("remote")
        self.call_all("remote")
        provider.quote("token", path="/revoke", plain=True)
        self.show_command("auth logout remote")
        self.mainstay.log_in("remote")
        self.note_secrets(provider, *SECRETS)
        self.assert_no_leaks()

    def test_the_secrets_of_a_machine(self):
        key = ECKey.generate_key("P-256", {"kid": "one"})
        public = {**key.as_dict(private=False), "use": "sig", "alg": "ES256"}
        client = {
            "client_id": "keyed",
            "token_endpoint_auth_method": "private_key_jwt",
            "jwks": {"keys": [public]},
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        }
        provider = self.provider(clients=json.dumps([client]))
        provider.quote("client_assertion")
        provider.quote("client_assertion", plain=True, status=500)
        pem = key.as_pem(private=True).decode()
        self.canaries.add_key("a private key", pem, *CONFIGURATION)
        lines = pem.strip().splitlines()
        broken = {"cut": "\n".join(lines[:-1]), "bare": "\n".join(lines[1:-1]), "flat": " ".join(lines)}
        given = {"grant": "clientCredentials", "clientId": "keyed", "scopes": ["read"]}
        url = self.loud(provider).url
        keys = {"remote": pem, **broken}
        self.serve_traced({name: {"url": url, "oauth": {**given, "privateKey": key}} for name, key in keys.items()})
        for name in broken:
            self.mainstay.daemon.until_status(name, "error")
            self.show_command(f"auth login {name}")
        self.mainstay.daemon.until_status("remote", "error")
        self.show_command("auth login remote")
        until("a token", lambda: self.mainstay.daemon.rest("POST", "/api/servers/remote/login", {})[0] == 200)
        self.mainstay.daemon.until_status("remote", "connected")
        self.call_all("remote")
        self.note_secrets(provider, "the signature of an assertion", "access_token")
        self.assert_no_leaks()

    def test_the_secrets_of_clients(self):
        """Each client has a login of its own, and a token for Mainstay."""
        provider = self.provider()
        loud = self.loud(provider)
        self.serve_traced({"remote": {"url": loud.url, "oauth": {"perPrincipal": True}}})
        self.mainstay.log_in("remote")
        clients = [f"client-{number}" for number in range(MANY_CLIENTS)]
        tokens, sessions = dict(zip(clients, self.home.tokens(*clients))), {}
        for client, token in tokens.items():
            self.canaries.add("a client's token", token)
            sessions[client] = self.mainstay.daemon.client(token=token)
            # It leaked here once: the address of the login, which is secret, is on record with the words of the failure.
            refused = text(sessions[client].call("remote__echo"))
            address = json.loads(refused)["loginUrl"]
            self.canaries.add("the state of a client's login", parse_qs(urlsplit(address).query)["state"][0])
            self.assertEqual(ask("GET", person.Browser(name=client).log_in(address)).status, 200)
            # It leaked here once: the call that opens the session has the secrets on record that were known when it began.
            for tool in ("error", "echo", "broken"):
                sessions[client].call(f"remote__{tool}")
        # It leaked here once: the log of a server knows its last eight credentials, whoever has them; the first is not known now.
        for tool in ("error", "large"):
            sessions[clients[0]].call(f"remote__{tool}")
        for path in ("/api/servers", "/mcp"):
            answer = self.mainstay.daemon.ask("POST", path, {}, {"authorization": f"Bearer {tokens[clients[0]]}"})
            self.show(f"a client's token at {path}", *answer)
        self.assertFalse(any(token in loud.heard for token in tokens.values()), "a client's token is passed on")
        self.note_secrets(provider, "code", "code_verifier", "access_token", "refresh_token")
        self.assert_no_leaks()

    def test_a_proxy_on_the_way_to_a_login(self):
        password = self.canaries.new("a proxy's password", *CONFIGURATION)
        provider = self.provider()
        servers = {}
        # It leaked here once: of the password, encoded, where a proxy says it back to a login: to a registration, a request for a
        # token, or a question for metadata.
        for name in ("registers", "fixed", "strict"):
            loud = self.loud(provider, strict=name == "strict")
            proxy = f"http://me:{quote(password, safe='')}@{loud.address}"
            servers[name] = {"url": loud.url, "proxy": proxy}
        servers["fixed"]["oauth"] = {"clientId": "x"}
        self.serve_traced(servers)
        for name in servers:
            self.mainstay.daemon.until_status(name, "error")
        for name in ("registers", "strict"):
            self.show_request("POST", f"/api/servers/{name}/login", {}, (502,))
            self.show_command(f"auth login {name}")
        begun = self.mainstay.begin("fixed")
        state = parse_qs(urlsplit(begun["authorizationUrl"]).query)["state"][0]
        query = f"code=made-up&state={state}&iss={provider.issuer}"
        answer = ask("GET", f"http://{self.mainstay.address}/oauth/callback?{query}")
        self.assertEqual(answer.status, 400)
        self.show("callback of fixed", answer.text)
        self.assert_no_leaks()

    def test_mistakes_in_a_configuration(self):
        """Findings name the place, and not what stands there."""
        # It can be no header, address, or program.
        odd = self.canaries.new("a secret of the vault")
        (self.folder / "secret").write_text(f"{odd} and {odd}\x01")
        self.show_command("secret set odd --from-file", self.folder / "secret")
        url, reference = "https://example.invalid/mcp", "${keyring:odd}"
        mistakes = {
            "a word of SOCKS": lambda secret: {"url": url, "proxy": f"socks5://me:{secret}@proxy.invalid:1"},
            # It leaked here once: the targets of names are kept with the URLs as they are, in `catalogs/.targets.json`.
            "a user's URL": lambda secret: {"url": f"https://me:{quote(secret, safe='')}@example.invalid/mcp"},
            # It leaked here once: a slash in the password hides from `masking.rs` that there is one.
            "a user's URL that is not encoded": lambda secret: {"url": f"https://me:{secret}@example.invalid/mcp"},
            "a list": lambda secret: {"url": url, "bearerToken": [secret]},
            # It leaked here once: what is an object by mistake is no secret to `masking.rs`.
            "an object": lambda secret: {"url": url, "oauth": {"clientId": "x", "clientSecret": {"value": secret}}},
            "a client without an id": lambda secret: {"url": url, "oauth": {"clientSecret": secret}},
            "a second header": lambda secret: {"url": url, "bearerToken": secret, "headers": {"authorization": secret}},
            "a text in place of an object": lambda secret: {"url": url, "oauth": secret},
            "a variable with a NUL": lambda secret: {"command": "true", "env": {"SECRET": f"{secret}\0"}},
        }
        entries = {
            "bearer": {"url": url, "bearerToken": reference},
            "header": {"url": url, "headers": {"x-custom": reference}},
            "host": {"url": f"http://{reference}/mcp"},
            "proxy": {"url": url, "proxy": f"http://me:{reference}@proxy.invalid"},
            # It leaked here once: the finding about blanks in a command quotes what a reference stands for.
            "command": {"command": reference},
            "cwd": {"command": "true", "cwd": reference},
        }
        for number, (what, entry) in enumerate(mistakes.items()):
            entries[f"wrong-{number}"] = entry(self.canaries.new(what, *CONFIGURATION))
        self.serve_traced(entries)
        config = self.home.path / "servers.json"
        before = config.read_text()
        word = self.canaries.new("a word in a text that is no JSON")
        for file, text in {
            "no-quotes.json": f'{{"mcpServers": {{"a": {{"url": "{url}", "bearerToken": {word}}}}}}}',
            "no-end.json": f'{{"mcpServers": {{"a": {{"url": "{url}", "bearerToken": "{word}',
            "lines.json": f"bearerToken: {word}\n",
        }.items():
            (self.folder / file).write_text(text)
            result = self.mainstay.run("validate", self.folder / file)
            self.assertEqual(result.returncode, 2, result)
            self.shown[f"validate {file}"] = result.stdout + result.stderr
            self.show_request("POST", "/api/config/check", {"text": text})
            config.write_text(text)
            self.show_request("POST", "/api/reload", {}, (400,))
        config.write_text(before)
        self.assert_no_leaks()

    def test_the_page_of_the_callback_tells_nothing(self):
        provider = self.stage.provider(tell_secrets=True)
        self.serve(self.stage.server(provider))
        callback = person.Browser().log_in(self.mainstay.begin("remote")["authorizationUrl"])
        for answer in (ask("GET", callback), ask("GET", callback)):
            for secret in provider.report()["secrets"]:
                self.assertNotIn(secret, answer.text + str(answer.headers))
            self.assertIn("no-store", answer.headers["cache-control"])
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")

    def test_the_search(self):
        """A secret is found in each form, and nothing else is."""
        secret = self.canaries.new("it", "home")
        encoded = quote(secret, safe="")
        for written in (secret, encoded, json.dumps(secret), secret[:24], secret.encode().hex().upper()):
            self.assertEqual(len(self.canaries.leaks({"away": f"<{written}>".encode()})), 1, written)
        for before in ("", "x", "xx"):
            written = base64.b64encode(f"{before}{secret}".encode())
            self.assertEqual(len(self.canaries.leaks({"away": written})), 1, written)
        self.assertEqual(self.canaries.leaks({"home of it": secret.encode(), "away": secret[:10].encode()}), [])
