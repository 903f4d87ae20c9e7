"""Troubles of logins: a full disk, a company's proxy, clocks, other processes, errors. What the user is told, that
nothing is lost, and that nothing is tried without end.
"""

import contextlib
import ctypes
import glob
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from datetime import datetime
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc.jwk import ECKey

from .mainstay import Mainstay, MainstayTest, text
from .stage import person
from .web import ask, free_port, until

# Time for a token to expire, to be renewed and to be used.
PERIOD_SECONDS = 30
# The longest time until Mainstay saves again, or looks for a login of another process.
PATIENCE_SECONDS = 35
STOP_SECONDS = 30
INSTALL_SECONDS = 300

PROXY_PASSWORD = "pass-w0rd-of-the-proxy"
MISTYPED = "mistyped-w0rd"

# Of documentation (RFC 5737): reserved, but public to Mainstay.
PUBLIC = "198.51.100.7"
CLONE_NEWNET = 0x4000_0000

FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"

SPENT = {"error": "invalid_grant", "error_description": "the code is spent"}
UNWANTED = {"error": "invalid_client_metadata", "error_description": "no strangers"}


class Disk:
    """A small file system, which can be filled or made read-only."""

    def __init__(self, test, folder):
        self.folder = folder
        folder.mkdir(mode=0o700)
        mount("-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder)
        test.addCleanup(subprocess.run, ["umount", "--lazy", folder], check=True)

    def fill(self):
        with contextlib.suppress(OSError), open(self.folder / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1024))

    def free(self):
        (self.folder / "filler").unlink()

    def become(self, mode: str):
        """`ro` or `rw`. The system refuses `ro` while a file is open for writing."""
        command = ["mount", "-o", f"remount,{mode}", self.folder]
        until(f"the disk to be {mode}", lambda: subprocess.run(command, capture_output=True).returncode == 0)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


class Proxy:
    """tinyproxy, which asks for a password."""

    def __init__(self, test):
        self.port, self.log = free_port(), test.folder / "proxy.log"
        self.address = f"http://127.0.0.1:{self.port}"
        config = test.folder / "tinyproxy.conf"
        config.write_text(
            f'Port {self.port}\nListen 127.0.0.1\nTimeout 60\nLogFile "{self.log}"\nLogLevel Connect\n'
            f"BasicAuth me {PROXY_PASSWORD}\n"
        )
        self.log.touch()
        command = ["tinyproxy", "-d", "-c", config]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        test.addCleanup(self.stop)
        until("the proxy", self.listens)

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def stop(self):
        self.process.terminate()
        self.process.wait(STOP_SECONDS)

    def url(self, password: str) -> str:
        return f"http://me:{password}@127.0.0.1:{self.port}"

    def has_seen(self, request: str) -> int:
        return self.log.read_text("utf-8", "replace").count(f"{request} HTTP/1.1")


class Site:
    """A web server that answers with JSON by path, and notes what it is asked for. With `tls`, a pair of files."""

    def __init__(self, test, address: str, tls: tuple | None = None):
        site = self
        self.asked: list[str] = []
        # Status, headers and JSON of each path.
        self.answers: dict[str, tuple[int, dict, object]] = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def serve(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                site.asked.append(self.path)
                status, headers, value = site.answers.get(self.path, (404, {}, {}))
                body = json.dumps(value).encode()
                self.send_response(status)
                for name, header in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, header)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = serve

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.origin = f"{'https' if tls else 'http'}://{address}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.close)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Front:
    """A `mainstay mcp` with servers of its own or of a daemon, and its client."""

    def __init__(self, test, *arguments):
        home = test.mainstay.home
        self.log = test.folder / f"front-{id(self)}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [home.mainstay, "mcp", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=home.environment,
                cwd=home.path,
                text=True,
            )
        test.addCleanup(self.close)
        self.number = 0
        info = {"name": "front", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict) -> dict:
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer
        raise AssertionError(f"`mainstay mcp` has ended: {self.log.read_text()}")

    def echo(self) -> str:
        return text(self.ask("tools/call", {"name": "remote__echo", "arguments": {"text": "hello"}}))

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class TroublesTest(MainstayTest):
    def logged_in(self, /, **settings):
        provider = self.stage.provider(**settings)
        self.serve(self.stage.server(provider))
        self.mainstay.log_in("remote")
        return provider

    def status_text(self) -> str:
        shown = self.mainstay.run("auth", "status", "remote")
        self.assertEqual(shown.returncode, 0, shown)
        return shown.stdout.decode()

    def renewals(self, provider) -> int:
        return self.outcomes(provider, "refresh_token").count("ok")

    def until_renewed(self, provider, count: int):
        """Calls until so many refreshes have succeeded. No call fails."""

        def renewed():
            self.mainstay.echo("remote")
            return self.renewals(provider) >= count

        until(f"{count} refreshes", renewed, PERIOD_SECONDS)

    def come_back(self, begun: dict, **browser):
        return ask("GET", person.Browser(**browser).log_in(begun["authorizationUrl"]))

    def need_root(self):
        if os.getuid() != 0:
            self.skipTest("only root can do that")

    def need(self, found, package: str):
        """Installs a package of Debian where we may, or skips the test."""
        if not found() and shutil.which("apt-get") and os.getuid() == 0:
            install = f"apt-get install --yes --no-install-recommends {package}"
            command = f"{{ {install} || {{ apt-get update && {install}; }}; }} >/dev/null 2>&1"
            subprocess.run(["sh", "-c", command], timeout=INSTALL_SECONDS)
        if not found():
            self.skipTest(f"{package} is not installed")
        return found()

    # The disk.

    def vault(self) -> Disk:
        self.need_root()
        self.mainstay.home.state.mkdir(mode=0o700)
        return Disk(self, self.mainstay.home.state / "vault")

    def save_error(self) -> str:
        return self.mainstay.login("remote").get("saveError", "")

    def test_a_login_that_completes_on_a_full_disk(self):
        disk = self.vault()
        disk.fill()
        provider = self.logged_in()
        self.assertEqual(self.mainstay.login("remote")["status"], "valid")
        self.assertIn("No space left on device", self.save_error())
        shown = self.status_text()
        self.assertIn("logged in to remote", shown)
        self.assertIn("not saved: ", shown)
        self.mainstay.echo("remote")
        disk.free()
        until("the login to be saved", lambda: not self.save_error(), PATIENCE_SECONDS)
        self.assertNotIn("not saved", self.status_text())
        self.mainstay.restart()
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")
        self.assertEqual(len(provider.token_requests()), 1)

    def test_a_refresh_on_a_disk_that_cannot_be_written(self):
        disk = self.vault()
        provider = self.logged_in(access_token_seconds=5)
        self.assertEqual(self.save_error(), "")
        disk.become("ro")
        self.until_renewed(provider, 2)
        until("the failure", self.save_error)
        self.assertIn("Read-only file system", self.save_error())
        self.assertIn("not saved: ", self.status_text())
        disk.become("rw")
        until("the login to be saved", lambda: not self.save_error(), PATIENCE_SECONDS)
        self.mainstay.restart()
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")
        self.assert_one_use_of_each(provider.refreshes())
        self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)

    def test_a_stop_saves_what_could_not_be_saved(self):
        disk = self.vault()
        disk.become("ro")
        self.logged_in()
        self.assertIn("Read-only file system", self.save_error())
        disk.become("rw")
        self.mainstay.daemon.stop()
        self.mainstay.start()
        # It failed here once: nothing is saved at the stop, and the login is lost (`Logins::stop`).
        self.assertEqual(self.mainstay.login("remote")["status"], "valid")

    # Scopes.

    def test_fewer_scopes_than_were_asked_for(self):
        provider = self.stage.provider()
        provider.act("person", grants="read")
        self.serve(self.stage.server(provider), oauth={"scopes": ["read", "write"]})
        self.mainstay.log_in("remote")
        self.assertEqual(self.mainstay.login("remote")["scopes"], ["read"])
        self.assertIn("scopes: read\n", self.status_text())
        self.mainstay.echo("remote")
        refused = self.mainstay.call("remote", "write", text="x")
        not_granted = "which the authorization server was asked for and did not grant"
        self.assertIn(f"the login lacks the scopes write, {not_granted}", refused)
        self.assertIn("mainstay auth login remote", refused)
        self.mainstay.echo("remote")
        login = self.mainstay.login("remote")
        self.assertEqual((login["status"], login["missingScopes"]), ("valid", ["write"]))
        self.assertIn("missing scopes: write; get them with `mainstay auth login remote`", self.status_text())
        self.assertEqual(self.mainstay.server("remote")["status"], "connected")
        self.assertEqual(len(provider.token_requests()), 1, "another token would have no more scopes")
        provider.act("person", grants="read write")
        self.mainstay.log_in("remote")
        self.assertEqual(self.mainstay.call("remote", "write", text="x"), "written: x")
        self.assertNotIn("missing scopes", self.status_text())

    def test_a_refresh_that_brings_fewer_scopes(self):
        provider = self.stage.provider(access_token_seconds=5)
        self.serve(self.stage.server(provider), oauth={"scopes": ["read", "write"]})
        self.mainstay.log_in("remote")
        self.assertEqual(self.mainstay.call("remote", "write", text="x"), "written: x")
        provider.act("narrow", scopes="read")
        granted = lambda: self.mainstay.login("remote")["scopes"]
        until("a token with fewer scopes", lambda: granted() == ["read"], PERIOD_SECONDS)
        self.mainstay.echo("remote")
        renewals = self.renewals(provider)
        for _ in range(10):
            refused = self.mainstay.call("remote", "write", text="x")
            self.assertIn("the login lacks the scopes write", refused)
        self.mainstay.echo("remote")
        self.assertLessEqual(self.renewals(provider), renewals + 1, "a refusal starts no refresh")
        login = self.mainstay.login("remote")
        self.assertEqual((login["status"], login["missingScopes"]), ("valid", ["write"]))
        self.assertIn("scopes: read\n", self.status_text())
        provider.act("narrow", scopes="read write")
        until("the scope", lambda: granted() == ["read", "write"], PERIOD_SECONDS)
        self.assertEqual(self.mainstay.call("remote", "write", text="x"), "written: x")
        # It failed here once: `missingScopes` has it still, and `auth status` asks for a login (`LoginKeeper::apply`).
        self.assertNotIn("missingScopes", self.mainstay.login("remote"))

    # A proxy.

    def proxied(self):
        self.need(lambda: shutil.which("tinyproxy"), "tinyproxy")
        proxy = Proxy(self)
        provider = self.stage.provider(access_token_seconds=5)
        return proxy, provider, self.stage.server(provider, "node")

    def until_called(self):
        until("a call", lambda: self.mainstay.call("remote", text="hello") == "hello", PERIOD_SECONDS)

    def set_proxy(self, server, url: str):
        self.mainstay.home.configure({"remote": {"url": server.url, "proxy": url}})
        self.mainstay.rest("POST", "/api/reload")

    def test_a_login_through_a_proxy(self):
        proxy, provider, server = self.proxied()
        self.serve(server, proxy=proxy.url(PROXY_PASSWORD))
        self.mainstay.log_in("remote")
        until("a refresh", lambda: self.renewals(provider), PERIOD_SECONDS)
        # tinyproxy closes the connections of this server without announcing it.
        for _ in range(10):
            self.assertEqual(self.mainstay.call("remote", text="hello"), "hello")
        origin = server.origin
        for request in (
            f"POST {server.url}",
            f"GET {origin}/.well-known/oauth-protected-resource/mcp",
            f"GET {provider.issuer}/.well-known/oauth-authorization-server",
            f"POST {provider.issuer}/register",
        ):
            self.assertTrue(proxy.has_seen(request), f"{request}: {proxy.log.read_text()}")
        self.assertEqual(proxy.has_seen(f"POST {provider.issuer}/token"), len(provider.token_requests()))
        self.mainstay.rest("DELETE", "/api/servers/remote/login")
        self.assertTrue(proxy.has_seen(f"POST {provider.issuer}/revoke"))
        self.assertNotIn(PROXY_PASSWORD, self.mainstay.daemon.log.read_text())

    def test_a_proxy_that_is_given_no_password(self):
        proxy, provider, server = self.proxied()
        self.serve(server, proxy=proxy.address)
        needed = f"the proxy {proxy.address} asks for a user and password; put them into `proxy`"
        until("the reason", lambda: needed in json.dumps(self.mainstay.server("remote")))
        status, answer = self.mainstay.daemon.rest("POST", "/api/servers/remote/login", {})
        self.assertEqual((status, needed in answer["message"]), (502, True), answer)
        self.assertEqual(provider.token_requests(), [])

    def test_a_wrong_password_for_a_proxy_costs_no_login(self):
        proxy, provider, server = self.proxied()
        self.serve(server, proxy=proxy.url(PROXY_PASSWORD))
        self.mainstay.log_in("remote")
        self.set_proxy(server, proxy.url(MISTYPED))
        failure = until("a failure", self.renewal_failure, PERIOD_SECONDS)
        self.assertIn(self.mainstay.login("remote")["status"], ("valid", "expired"))
        self.set_proxy(server, proxy.url(PROXY_PASSWORD))
        self.until_called()
        until("a refresh", lambda: self.outcomes(provider, "refresh_token"), PERIOD_SECONDS)
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)
        self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})
        self.assertNotIn(MISTYPED, self.mainstay.daemon.log.read_text())
        # It failed here once: the answer of the proxy counts as a connection that broke off, and the proxy is not named
        # (`follow` in http/bounded.rs: HTTP 401, and a reset instead of the end of its page).
        self.assertIn(proxy.address, failure)

    def renewal_failure(self) -> str:
        return self.mainstay.login("remote").get("lastRefresh", {}).get("error", "")

    def test_a_wrong_password_for_a_proxy_before_the_first_login(self):
        proxy, provider, server = self.proxied()
        self.serve(server, proxy=proxy.url(MISTYPED))
        refused = self.mainstay.daemon.until_status("remote", "error")
        self.assertIn(f"(through the proxy {proxy.address})", json.dumps(refused))
        status, answer = self.mainstay.daemon.rest("POST", "/api/servers/remote/login", {})
        self.assertEqual((status, provider.token_requests()), (502, []), answer)
        # It failed here once: "no client could be registered: …/register gave no answer". HTTP 401 counts as metadata that is not
        # there, and the proxy is not named (`Finder::get`, `WebClient::send`).
        self.assertIn(proxy.address, answer["message"])

    def test_a_token_that_the_server_takes_again_needs_no_login(self):
        proxy, provider, server = self.proxied()
        self.serve(server, proxy=proxy.url(PROXY_PASSWORD))
        self.mainstay.log_in("remote")
        # The proxy's 401 looks like the server's.
        self.set_proxy(server, proxy.url(MISTYPED))
        self.mainstay.daemon.until_status("remote", "error", "reconnecting")
        self.set_proxy(server, proxy.url(PROXY_PASSWORD))
        self.until_called()
        # It failed here once: calls succeed, and the login counts as required until the next one (`KeeperState::is_required`).
        self.assertFalse(self.mainstay.login("remote")["required"])

    # Public servers and private addresses.

    def test_a_public_server_that_leads_to_a_private_address(self):
        self.enter_network_with_a_public_address()
        private, server = Site(self, "127.0.0.1"), Site(self, PUBLIC)
        url = f"{server.origin}/mcp"
        at_path, at_root = (f"/.well-known/oauth-protected-resource{path}" for path in ("/mcp", ""))
        server.answers["/mcp"] = (401, {"www-authenticate": "Bearer"}, {})
        self.mainstay.serve({"remote": {"url": url}})
        self.mainstay.daemon.until_status("remote", "error")
        resource = lambda issuer: (200, {}, {"resource": url, "authorization_servers": [issuer]})
        for answers in (
            {at_path: (302, {"location": f"{private.origin}/secret"}, {})},
            {at_root: (307, {"location": f"{private.origin}/secret"}, {})},
            {at_path: resource(private.origin)},
            {at_path: resource(private.origin.replace("127.0.0.1", "localhost"))},
            {at_path: resource("https://10.1.2.3")},
            {at_path: resource("https://169.254.169.254/latest")},
            {at_path: resource("https://[::1]")},
        ):
            with self.subTest(answers=answers):
                server.answers = {"/mcp": server.answers["/mcp"], **answers}
                self.assert_private()
        named = f'Bearer resource_metadata="{private.origin}/secret"'
        server.answers["/mcp"] = (401, {"www-authenticate": named}, {})
        self.mainstay.restart()
        self.mainstay.daemon.until_status("remote", "error")
        self.assert_private()
        self.assertEqual(private.asked, [])

    def test_a_public_authorization_server_that_leads_to_a_private_address(self):
        self.enter_network_with_a_public_address()
        private, server = Site(self, "127.0.0.1"), Site(self, PUBLIC)
        certificate = self.certificate()
        issuer = Site(self, PUBLIC, certificate)
        url = f"{server.origin}/mcp"
        server.answers = {
            "/mcp": (401, {"www-authenticate": "Bearer"}, {}),
            "/.well-known/oauth-protected-resource/mcp": (
                200,
                {},
                {"resource": url, "authorization_servers": [issuer.origin]},
            ),
        }
        metadata = {
            "issuer": issuer.origin,
            "authorization_endpoint": f"{issuer.origin}/authorize",
            "token_endpoint": f"{private.origin}/token",
            "registration_endpoint": f"{private.origin}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        place = "/.well-known/oauth-authorization-server"
        issuer.answers = {place: (200, {}, metadata), "/register": (201, {}, {"client_id": "one"})}
        self.mainstay.serve({"remote": {"url": url, "caFile": str(certificate[0])}})
        self.mainstay.daemon.until_status("remote", "error")
        self.assert_private()
        metadata["registration_endpoint"] = f"{issuer.origin}/register"
        begun = self.mainstay.begin("remote")
        state = parse_qs(urlsplit(begun["authorizationUrl"]).query)["state"][0]
        answer = ask("GET", f"{begun['redirectUri']}?{urlencode({'code': 'one', 'state': state})}")
        self.assertEqual((answer.status, "private address 127.0.0.1" in answer.text), (400, True), answer.text)
        self.assertIn("private address 127.0.0.1", self.status_text())
        self.assertEqual(private.asked, [])

    def test_a_private_issuer_that_the_configuration_names(self):
        self.enter_network_with_a_public_address()
        private, server = Site(self, "127.0.0.1"), Site(self, PUBLIC)
        url = f"{server.origin}/mcp"
        server.answers["/mcp"] = (401, {"www-authenticate": "Bearer"}, {})
        resource = {"resource": url, "authorization_servers": [private.origin]}
        server.answers["/.well-known/oauth-protected-resource/mcp"] = (200, {}, resource)
        self.mainstay.serve({"remote": {"url": url, "oauth": {"issuer": private.origin}}})
        status, answer = self.mainstay.daemon.rest("POST", "/api/servers/remote/login", {})
        self.assertEqual(status, 502, "the issuer has no metadata")
        self.assertNotIn("private", answer["message"])
        self.assertIn("/.well-known/oauth-authorization-server", private.asked)

    def assert_private(self):
        status, answer = self.mainstay.daemon.rest("POST", "/api/servers/remote/login", {})
        self.assertEqual(status, 502)
        self.assertRegex(answer["message"], "is at the private address (127|10|169|::1)")
        self.assertEqual(self.mainstay.login("remote")["status"], "none")

    def enter_network_with_a_public_address(self):
        """From here to its end, the test and what it starts have a network of their own."""
        self.need_root()
        libc = ctypes.CDLL(None, use_errno=True)
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.addCleanup(os.close, before)
        if libc.unshare(CLONE_NEWNET) != 0:
            self.skipTest(f"a network of its own: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.setns, before, CLONE_NEWNET)
        for command in (["link", "set", "lo", "up"], ["address", "add", f"{PUBLIC}/32", "dev", "lo"]):
            subprocess.run(["ip", *command], check=True)

    def certificate(self) -> tuple:
        """Files of a certificate for the public address, and of its key."""
        files = (self.folder / "issuer.pem", self.folder / "issuer.key")
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=issuer"]
        limits = ["-addext", "basicConstraints=critical,CA:FALSE", "-days", "2"]
        names = ["-addext", f"subjectAltName=IP:{PUBLIC}"]
        command = ["openssl", "req", "-x509", *key, *limits, *names, "-out", files[0], "-keyout", files[1]]
        subprocess.run(command, check=True, capture_output=True)
        return files

    # Several processes.

    def test_processes_that_share_a_login(self):
        provider = self.stage.provider(access_token_seconds=5)
        self.serve(self.stage.server(provider))
        config = self.mainstay.home.path / "servers.json"
        fronts = [Front(self, "--standalone", "--config", config) for _ in range(2)]
        for front in fronts:
            self.assertIn("mainstay auth login remote", front.echo())
        provider.fault("slow", delayMs=500)
        self.mainstay.log_in("remote")
        left = list(fronts)

        def seen():
            left[:] = [front for front in left if front.echo() != "hello"]
            self.mainstay.echo("remote")
            return not left

        until("the others to see the login", seen, PATIENCE_SECONDS)
        # They ask for a refresh at the same time.
        renewals = self.renewals(provider)

        def renewed():
            for front in fronts:
                self.assertEqual(front.echo(), "hello")
            self.mainstay.echo("remote")
            return self.renewals(provider) >= renewals + 1

        until("a refresh", renewed, PERIOD_SECONDS)
        shown = self.mainstay.run("call", "--config", config, "remote/echo", "text=hello")
        self.assertEqual(shown.stdout, b"hello\n", shown)
        self.assert_one_use_of_each(provider.refreshes())
        self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})
        self.assertEqual(len(provider.token_requests("authorization_code")), 1)

    def test_a_daemon_that_takes_over_during_a_refresh(self):
        provider = self.logged_in(access_token_seconds=5)
        self.mainstay.daemon.stop()
        front = Front(self, "--config", self.mainstay.home.path / "servers.json")
        self.assertEqual(front.echo(), "hello")
        provider.fault("slow", requests=1, delayMs=2000)
        until("a refresh", lambda: provider.report()["waiting"], PERIOD_SECONDS)
        self.mainstay.start()
        self.mainstay.daemon.until_status("remote", "connected")
        self.assertEqual(front.echo(), "hello")
        self.until_renewed(provider, self.renewals(provider) + 1)
        self.assertEqual(front.echo(), "hello")
        self.assert_one_use_of_each(provider.refreshes())
        self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})

    # The clock of this machine.

    def set_clock(self, mainstay: Mainstay, shift: str):
        library = self.need(lambda: glob.glob(FAKETIME), "faketime")[0]
        environment = {"LD_PRELOAD": library, "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        mainstay.home.environment |= environment

    def test_a_clock_that_is_ten_minutes_wrong(self):
        provider = self.stage.provider(access_token_seconds=5)
        server = self.stage.server(provider)
        fast, slow = self.mainstay, Mainstay(self.binary, self.folder / "slow")
        self.addCleanup(slow.close)
        for mainstay, shift in ((fast, 600), (slow, -600)):
            self.set_clock(mainstay, f"{shift:+}s")
            mainstay.serve({"remote": {"url": server.url}})
            mainstay.log_in("remote")
            since = datetime.fromisoformat(mainstay.login("remote")["loggedInAt"]).timestamp()
            self.assertAlmostEqual(since - time.time(), shift, delta=30)

        def renewed():
            for mainstay in (fast, slow):
                mainstay.echo("remote")
            return all("lastRefresh" in mainstay.login("remote") for mainstay in (fast, slow))

        until("refreshes", renewed, PERIOD_SECONDS)
        for mainstay in (fast, slow):
            login = mainstay.login("remote")
            self.assertEqual((login["status"], login["lastRefresh"].get("error")), ("valid", None))
        # Twice the lifetime, and no refresh more than is due.
        self.assertLessEqual(len(provider.refreshes()), 4)
        self.assertEqual(set(self.outcomes(provider, "refresh_token")), {"ok"})

    def test_a_slow_clock_of_a_machine_with_a_private_key(self):
        self.set_clock(self.mainstay, "-600s")
        key = ECKey.generate_key("P-256", {"kid": "one"})
        keyed = {
            "client_id": "keyed",
            "token_endpoint_auth_method": "private_key_jwt",
            "jwks": {"keys": [{**key.as_dict(private=False), "use": "sig", "alg": "ES256"}]},
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        }
        provider = self.stage.provider(clients=json.dumps([keyed]))
        pem = key.as_pem(private=True).decode()
        given = {"grant": "clientCredentials", "clientId": "keyed", "privateKey": pem, "scopes": ["read"]}
        self.serve(self.stage.server(provider), oauth=given)
        refused = self.mainstay.daemon.until_status("remote", "error")
        self.assertIn("the authorization server says invalid_client", json.dumps(refused))
        self.assertIn("the authorization server says invalid_client", self.status_text())
        for _ in range(5):
            self.mainstay.call("remote", text="x")
        self.assertEqual(len(provider.token_requests()), 1, "it is not tried again")
        expected = "this machine's clock is 1[01] minutes behind the authorization server's"
        self.assertRegex(self.status_text(), expected)

    # Errors of the authorization server.

    def test_errors_at_the_authorization_endpoint(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        for error, description, expected in (
            ("access_denied", None, "the login was refused or given up"),
            ("access_denied", "not you", "the authorization server says access_denied: not you"),
            ("server_error", None, "the authorization server says server_error"),
            ("temporarily_unavailable", "at noon", "the authorization server says temporarily_unavailable: at noon"),
            ("invalid_scope", "no <b>", "the authorization server says invalid_scope: no <b>"),
            ("unauthorized_client", None, "the authorization server says unauthorized_client"),
        ):
            with self.subTest(error=error, description=description):
                begun = self.mainstay.begin("remote")
                state = parse_qs(urlsplit(begun["authorizationUrl"]).query)["state"][0]
                answer = {"error": error, "state": state, "iss": provider.issuer}
                if description:
                    answer["error_description"] = description
                page = ask("GET", f"{begun['redirectUri']}?{urlencode(answer)}")
                self.assertEqual(page.status, 400)
                self.assertIn(expected.replace("<", "&lt;").replace(">", "&gt;"), page.text)
                self.assert_failed(expected)
        self.assertEqual(provider.token_requests(), [])
        self.log_in_after_all(provider)

    def test_errors_at_the_token_endpoint(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        spent = "the authorization server says invalid_grant: the code is spent"
        for expected, fault in (
            (spent, {"kind": "json", "status": 400, "body": SPENT}),
            (spent, {"kind": "json", "status": 200, "body": SPENT}),
            ("says invalid_client", {"kind": "json", "status": 401, "body": {"error": "invalid_client"}}),
            ("says odd_one", {"kind": "json", "status": 403, "body": {"error": "odd_one"}}),
            ("is not the JSON of one", {"kind": "json", "status": 200, "body": {"token": "x"}}),
            ("answers HTTP 200", {"kind": "html", "status": 200}),
            ("answers HTTP 400", {"kind": "html", "status": 400}),
            ("answers HTTP 503", {"kind": "html", "status": 503}),
            ("answers HTTP 404", {"kind": "status", "status": 404}),
            (f"{provider.issuer}/token gave no answer", {"kind": "reset"}),
        ):
            with self.subTest(fault=fault):
                provider.act("well")
                provider.act("forget")
                provider.fault(**fault)
                page = self.come_back(self.mainstay.begin("remote"))
                self.assertEqual(page.status, 400)
                self.assertIn("Not logged in", page.text)
                self.assertEqual(len(provider.token_requests()), 1, "the code is used once")
                self.assert_failed(expected)
        self.log_in_after_all(provider)

    def assert_failed(self, expected: str):
        login = self.mainstay.login("remote")
        self.assertEqual((login["status"], login["pending"]), ("none", False))
        self.assertIn(expected, login["loginError"])
        shown = self.status_text()
        self.assertIn("mainstay auth login remote", shown)
        self.assertIn(f"last attempt: {login['loginError']}", shown)

    def log_in_after_all(self, provider):
        provider.act("well")
        self.mainstay.log_in("remote")
        self.assertNotIn("loginError", self.mainstay.login("remote"))
        self.mainstay.echo("remote")

    def test_errors_at_the_registration(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        refused = "the authorization server refuses to register a client: "
        for expected, fault in (
            (f"{refused}invalid_client_metadata: no strangers", {"kind": "json", "status": 400, "body": UNWANTED}),
            (f"{refused}invalid_client_metadata: no strangers", {"kind": "json", "status": 200, "body": UNWANTED}),
            (f"{refused}HTTP 403", {"kind": "html", "status": 403}),
            ("the answer to the registration is not the JSON of one", {"kind": "html", "status": 200}),
            ("the answer to the registration is not the JSON of one", {"kind": "json", "status": 201, "body": {}}),
            ("the authorization server cannot register a client at the moment: HTTP 503", {"kind": "status"}),
            (f"{provider.issuer}/register gave no answer", {"kind": "reset"}),
        ):
            with self.subTest(fault=fault):
                provider.act("well")
                provider.act("faults", path="/register", **fault)
                status, answer = self.mainstay.daemon.rest("POST", "/api/servers/remote/login", {})
                self.assertEqual((status, answer["error"]), (502, "login_failed"))
                self.assertIn(expected, answer["message"])
                self.assertEqual(self.mainstay.login("remote")["status"], "none")
        shown = self.mainstay.run("auth", "login", "remote", "--no-browser")
        self.assertEqual(shown.returncode, 1)
        self.assertIn("/register gave no answer", shown.stderr.decode())
        self.log_in_after_all(provider)

    def test_an_error_with_status_200_at_a_refresh(self):
        provider = self.logged_in(access_token_seconds=5)
        provider.fault("json", status=200, body={"error": "invalid_grant", "error_description": "over"})
        until("the end", lambda: self.mainstay.login("remote")["status"] == "ended", PERIOD_SECONDS)
        shown = self.status_text()
        self.assertIn("the login to remote has ended: the authorization server says invalid_grant: over", shown)
        for _ in range(5):
            self.assertIn("invalid_grant: over", self.mainstay.call("remote", text="x"))
        self.assertEqual(len(provider.refreshes()), 1)
        # It failed here once: nothing renews a login that has ended (`login_lines`).
        self.assertNotIn("renewed before", shown)

    # Logins that cross each other.

    def test_a_browser_that_comes_back_twice(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        callback = person.Browser().log_in(self.mainstay.begin("remote")["authorizationUrl"])
        self.assertEqual(ask("GET", callback).status, 200)
        again = ask("GET", callback)
        self.assertEqual(again.status, 400)
        self.assertIn("this login has been completed already", again.text)
        body = {"address": callback}
        status, pasted = self.mainstay.daemon.rest("POST", "/api/servers/remote/login/answer", body)
        self.assertEqual((status, "completed already" in pasted["message"]), (502, True), pasted)
        login = self.mainstay.login("remote")
        self.assertEqual((login["status"], login["pending"]), ("valid", False))
        self.assertNotIn("loginError", login)
        self.assertNotIn("last attempt", self.status_text())
        self.mainstay.daemon.until_status("remote", "connected")
        self.mainstay.echo("remote")
        self.assertEqual(self.outcomes(provider, "authorization_code"), ["ok"])

    def test_a_login_that_is_abandoned_and_another_one(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        command = self.converse("auth", "login", "remote", "--no-browser")
        abandoned = command.url(provider.issuer)
        command.process.terminate()
        command.end()
        self.assertEqual(self.mainstay.login("remote")["status"], "pending")
        self.assertIn("waits for you", self.status_text())
        self.mainstay.log_in("remote", name="ada")
        late = ask("GET", person.Browser(name="grace").log_in(abandoned))
        self.assertEqual(late.status, 400)
        self.assertIn("another login to the same server has begun since", late.text)
        self.assert_is("ada")
        self.assertEqual(self.outcomes(provider, "authorization_code"), ["ok"])

    def test_a_further_login_that_is_refused_leaves_the_first(self):
        provider = self.logged_in()
        begun = self.mainstay.begin("remote")
        login = self.mainstay.login("remote")
        self.assertEqual((login["status"], login["pending"]), ("valid", True))
        self.mainstay.echo("remote")
        self.assertEqual(self.come_back(begun, refuses=True).status, 400)
        self.assert_is("ada")
        self.assertIn("last attempt: the authorization server says access_denied", self.status_text())
        self.assertEqual(len(provider.token_requests()), 1)

    def test_a_device_that_is_confirmed_after_a_login_in_a_browser(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        device = self.mainstay.begin("remote", device=True)
        self.mainstay.log_in("remote", name="ada")
        person.Browser(name="grace").log_in(device["completeUrl"])
        # It failed here once: the later login does not end the one on the device, which takes its place (`Logins::begin`).
        self.assertFalse(self.mainstay.login("remote")["pending"])
        self.assert_is("ada")

    def test_a_browser_that_comes_back_after_a_login_on_a_device(self):
        provider = self.stage.provider()
        self.serve(self.stage.server(provider))
        begun = self.mainstay.begin("remote")
        device = self.mainstay.begin("remote", device=True)
        person.Browser(name="grace").log_in(device["completeUrl"])
        self.mainstay.daemon.until_status("remote", "connected")
        # It failed here once: the later login does not end the one in the browser (`Logins::begin_on_device`).
        late = self.come_back(begun, name="ada")
        self.assertIn("another login to the same server has begun since", late.text)
        self.assert_is("grace")

    def assert_is(self, name: str):
        login = self.mainstay.login("remote")
        self.assertEqual(login["status"], "valid")
        self.assertEqual(json.loads(self.mainstay.call("remote", "whoami"))["subject"], name)
