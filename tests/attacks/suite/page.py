"""The web page's session: its cookie, which every port of the host can get, opens nothing alone."""

import json
import re
from pathlib import Path

from .world import Daemon, Home

ROUTES = Path(__file__).parents[3] / "docs" / "openapi.json"
METHODS = ("get", "post", "put", "delete", "patch")
# They make a session, and ask for a code or the control token.
SIGNING_IN = ("POST", "/api/session")
WRITES = {"content-type": "application/json"}


def _signed_in(daemon: Daemon) -> tuple[dict, dict]:
    """Signs in as the page does: the headers with the cookie alone, and those with the page key, too."""
    same = {**WRITES, "origin": daemon.url.rstrip("/"), "sec-fetch-site": "same-origin"}
    status, headers, text = daemon.ask("POST", "/api/session", {"token": daemon.token}, same)
    assert status == 200, f"{status} {text}"
    cookie = {**WRITES, "cookie": headers["set-cookie"].split(";")[0]}
    return cookie, {**cookie, "x-page-key": json.loads(text).get("pageKey", "")}


def _entry(mark: Path) -> dict:
    """A server that is no server, but runs a command."""
    return {"name": "shell", "command": "sh", "args": ["-c", f"touch {mark}"]}


def _assert_refused(what: str, answer: tuple):
    status, headers, text = answer
    assert status == 403 and "not_our_page" in text, f"{what}: {status} {text[:300]}"
    assert "set-cookie" not in headers, f"{what}: {headers}"


def _assert_tells_no_secret(what: str, text: str, secrets: list[str]):
    assert not any(it in text for it in secrets), f"{what}: {text[:300]}"


def a_cookie_that_another_program_got(home: Home):
    """A program at another port sends no `Origin` and no `Sec-Fetch-Site`."""
    mark = home.path / "ran"
    daemon = home.serve({})
    cookie, page = _signed_in(daemon)
    token, key = daemon.token, page["x-page-key"]
    requests = [
        ("GET", "/api/session", None),
        ("GET", "/api/servers", None),
        ("GET", "/api/call-records/export?format=csv", None),
        ("GET", "/api/config/text", None),
        ("POST", "/api/servers/try", _entry(mark)),
        ("POST", "/api/servers", {**_entry(mark), "persist": True}),
        ("POST", "/api/session/links", {}),
        ("POST", "/api/session/downloads", {"path": "/api/servers"}),
        ("POST", "/api/tokens", {"name": "thief"}),
        ("POST", "/api/token/rotate", {}),
        ("DELETE", "/api/session", None),
    ]
    for method, path, body in requests:
        answer = daemon.ask(method, path, body, cookie)
        _assert_refused(f"{method} {path}", answer)
        _assert_tells_no_secret(f"{method} {path}", answer[2], [token, key])
    assert not mark.exists(), "a command ran"
    assert daemon.token == token, "the control token was replaced"
    assert daemon.rest("GET", "/api/tokens")[1]["tokens"] == [], "a client's token was made"
    assert daemon.rest("GET", "/api/servers")[1]["servers"] == [], "a server was added"
    # The page itself can do all this, and is not told its key again.
    for method, path, body in requests[:5]:
        status, _, text = daemon.ask(method, path, body, page)
        assert status == 200, f"by the page: {method} {path}: {status} {text[:300]}"
        _assert_tells_no_secret(f"{method} {path}", text, [token, key])
    assert mark.exists(), "the page cannot try a server"


def every_route_by_the_cookie(home: Home):
    """Reading or writing, known or not, with whatever stands in the place of the page key."""
    daemon = home.serve({})
    cookie, page = _signed_in(daemon)
    other = _signed_in(daemon)[1]["x-page-key"]
    key, value = page["x-page-key"], cookie["cookie"].split("=", 1)[1]
    described = json.loads(ROUTES.read_text())["paths"]
    routes = [(name.upper(), re.sub(r"\{\w+\}", "x", path)) for path in described for name in described[path]]
    routes = [it for it in routes if it[0].lower() in METHODS and it != SIGNING_IN]
    assert len(routes) > 50, f"only {routes}"
    for method, path in [*routes, ("GET", "/api/none"), ("POST", "/api/none")]:
        answer = daemon.ask(method, path, None if method == "GET" else {}, cookie)
        _assert_refused(f"{method} {path}", answer)
    assert daemon.ask("HEAD", "/api/servers", None, cookie)[0] == 403, "HEAD"
    for wrong in ("", value, key[1:], key.upper(), f"{key}, {key}", other, "null", daemon.token):
        answer = daemon.ask("GET", "/api/servers", None, {**cookie, "x-page-key": wrong})
        _assert_refused(f"the key {wrong!r}", answer)
    for path in (f"/api/servers?x-page-key={key}", f"/api/servers?pageKey={key}", f"/api/servers?ticket={key}"):
        _assert_refused(path, daemon.ask("GET", path, None, cookie))
    # A key opens nothing without the cookie, or with one of another session.
    assert daemon.ask("GET", "/api/servers", None, {"x-page-key": key})[0] == 401
    assert daemon.ask("GET", "/api/servers", None, page)[0] == 200


def a_ticket_is_for_one_download(home: Home):
    daemon = home.serve({})
    cookie, page = _signed_in(daemon)
    thief, _ = _signed_in(daemon)
    path = "/api/call-records/export?format=csv"

    def ticket() -> str:
        """The address with a ticket that is not used yet."""
        status, _, text = daemon.ask("POST", "/api/session/downloads", {"path": path}, page)
        assert status == 200, f"{status} {text}"
        return json.loads(text)["path"]

    used = ticket()
    assert used.startswith(f"{path}&ticket="), used
    status, _, text = daemon.ask("GET", used, None, cookie)
    assert status == 200, f"the download: {status} {text}"
    _assert_refused("a second time", daemon.ask("GET", used, None, cookie))
    for what, change, headers in (
        ("another path", lambda it: it.replace(path, "/api/servers?x=1"), cookie),
        ("another format", lambda it: it.replace("csv", "jsonl"), cookie),
        ("one more parameter", lambda it: it.replace("&ticket", "&limit=1&ticket"), cookie),
        ("something behind it", lambda it: f"{it}&limit=1", cookie),
        ("a path before it", lambda it: f"/api/servers?x={it}", cookie),
        ("two tickets", lambda it: f"{it}&{it.rpartition('&')[2]}", cookie),
        ("another session", lambda it: it, thief),
        ("HEAD", lambda it: it, cookie),
        ("POST", lambda it: it, cookie),
    ):
        method = what if what.isupper() else "GET"
        status, _, text = daemon.ask(method, change(ticket()), {} if method == "POST" else None, headers)
        assert status == 403, f"{what}: {status} {text[:300]}"
    status, _, text = daemon.ask("GET", ticket(), None, {})
    assert status == 401, f"without a cookie: {status} {text[:300]}"
