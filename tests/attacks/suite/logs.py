"""Logs: a server writes its secrets to stderr, and they are not kept."""

import base64
import json
from urllib.parse import quote

from .world import Daemon, Home, until

# Letters and digits stand for themselves in most forms: each of these words would be seen.
WORDS = ["Tr0ub4dor", "xyzQ77", "w8KpLm", "q5RtZv", "j3NcHb", "u6YgFs", "e1DxAo"]
SECRET = '{}&{}"{}/{}\u00e9{}\\{}<{}\U0001f511'.format(*WORDS)


def _json(text: str, escaped: str = "") -> str:
    """A text as JSON, in which these characters are written by their number, too."""
    out = json.dumps(text)
    for character in escaped:
        out = out.replace(character, f"\\u{ord(character):04x}")
    return out


def _forms() -> dict[str, str]:
    """The secret as programs write it down."""
    raw, inner = SECRET.encode(), json.dumps({"x": SECRET})
    return {
        "as it is": SECRET,
        "JSON": _json(SECRET),
        "JSON of Go": _json(SECRET, "&<>").replace("\\u00e9", "\u00e9"),
        "JSON of PHP": _json(SECRET).replace("/", "\\/"),
        "JSON in capitals": _json(SECRET, "&<>/").replace("\\u00e9", "\\u00E9").replace("\\ud83d", "\\uD83D"),
        "JSON with Unicode": json.dumps(SECRET, ensure_ascii=False),
        "JSON in JSON": json.dumps({"y": inner}),
        "JSON in JSON in JSON": json.dumps([json.dumps({"y": inner})]),
        "JSON of PHP in JSON": json.dumps(_json(SECRET, "&<").replace("/", "\\/")),
        "a query": quote(SECRET, safe=""),
        "a query in small letters": quote(SECRET, safe="").replace("%C3%A9", "%c3%a9"),
        "base64": base64.b64encode(raw).decode(),
        "base64 for URLs": base64.urlsafe_b64encode(b"user:" + raw).decode(),
        "digits": raw.hex(),
        "capital digits": raw.hex().upper(),
    }


def _until_log(home: Home, server: str, last: str, seconds: float = 20) -> str:
    """The log of a server, once its last words are in it."""
    file = home.state / "logs" / f"mcp-{server}.log"
    read = lambda: file.read_text() if file.exists() else ""
    return until("the whole log", lambda: (text := read()) and last in text and text, seconds)


def _shown(home: Home, daemon: Daemon, server: str) -> dict[str, str]:
    """The text of each place where words of the server are."""
    places = {path.name: path.read_text() for path in (home.state / "logs").iterdir()}
    own = f"/api/servers/{server}"
    for path in (f"{own}/logs?tail=500", own, "/api/servers", "/api/events/recent"):
        status, answer = daemon.rest("GET", path)
        assert status == 200, f"{path}: {status} {answer}"
        places[path] = json.dumps(answer, ensure_ascii=False)
    printed = home.run("logs", server, "-n", "500")
    places["mainstay logs"] = (printed.stdout + printed.stderr).decode()
    return places


def secrets_in_every_escape(home: Home):
    """Also of a server that ends at once: why it did stands in more places."""
    forms = _forms()
    lines = [f"form {number}, {what}: <<{form}>>\n" for number, (what, form) in enumerate(forms.items())]
    entry = {**home.hostile("leaky", tools=["say"], stderr="".join(lines)), "env": {"DB_PASSWORD": SECRET}}
    (home.path / "last words").write_text("".join(lines))
    dead = {"command": "sh", "args": ["-c", "cat 'last words' >&2; exit 1"], "env": {"DB_PASSWORD": SECRET}}
    daemon = home.serve({"leaky": entry, "dead": {**dead, "cwd": str(home.path)}})
    daemon.until_status("leaky", "connected")
    for server in ("leaky", "dead"):
        _until_log(home, server, f"form {len(lines) - 1},")
        places = _shown(home, daemon, server)
        told = places[f"/api/servers/{server}/logs?tail=500"]
        assert all(f"form {number}, " in told for number in range(len(lines))), f"{server} told only {told}"
        for place, text in places.items():
            fell = [what for what, form in forms.items() if form in text]
            assert not fell, f"{server}, {place} has {fell}"
            found = [word for word in WORDS if word in text]
            assert not found, f"{server}, {place} has {found}: {text[:1500]}"


SHORT = "k9Zq84horse7Bat3"
# Characters of a half that tell too much.
HALF = 6
# So much of the beginning of a line is kept that is too long.
BEGINNING = 61_435


def _assert_no_half(home: Home, lines: list[str]):
    """Has a server write these lines, each too long for the log, about its secret."""
    entry = {**home.hostile("leaky", tools=["say"], stderr=lines), "env": {"DB_PASSWORD": SHORT}}
    daemon = home.serve({"leaky": entry})
    kept = _until_log(home, "leaky", lines[-1].split(":")[0], 40)
    said = [text for text in kept.splitlines() if " stderr " in text]
    assert len(said) == len(lines) and all(" \u2026 " in text for text in said), f"{len(said)} lines of {len(lines)}"
    parts = {SHORT[at : at + HALF] for at in range(len(SHORT) - HALF + 1)}
    for place, text in _shown(home, daemon, "leaky").items():
        found = [(text.index(part), part) for part in parts if part in text]
        assert not found, f"{place} has {min(found)[1]!r}: {text[max(0, min(found)[0] - 60) :][:160]!r}"


def a_secret_where_a_long_line_is_cut(home: Home):
    """A line beyond 64 KiB keeps its beginning and its end, and of a secret in between neither half."""
    heads = [f"line {first:02}: " for first in range(len(SHORT) + 1)]
    dots = [BEGINNING - len(head) - first for first, head in enumerate(heads)]
    _assert_no_half(home, [f"{head}{'.' * some}{SHORT}{'.' * 20_000}\n" for head, some in zip(heads, dots)])


def a_long_line_of_nothing_but_secrets(home: Home):
    """Wherever something is left out, a secret is cut: at each of its characters, in one line or the other."""
    line = SHORT * (80_000 // len(SHORT))
    _assert_no_half(home, [f"line {shift:02}: {'.' * shift}{line}\n" for shift in range(len(SHORT))])
