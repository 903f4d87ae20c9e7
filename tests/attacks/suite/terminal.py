"""Terminals: text from outside is shown, and never obeyed; neither is what is pasted from there into a shell."""

import json
import re
import signal
import subprocess
from pathlib import Path

from .world import ANSWER_SECONDS, Home, until

ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31m\x9b31m\x9d0;x\x9c\r\x08\x7f\u202e\u2066\u200b\ufeff\u00ad"
FORBIDDEN = [chr(code) for code in (*range(0, 9), 11, 12, *range(14, 27), *range(28, 32), *range(127, 160))] + [
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\u200c\u200d\u2060\ufeff\u00ad"
]
# Colours are the program's own, and so is the erasing of the line that says what takes long, from its beginning.
# Nothing else that begins with an escape is.
OWN_SEQUENCES = r"\x1b\[[0-9;]*m|\r\x1b\[2K"


def _assert_harmless(what: str, shown: bytes):
    text = shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    assert "\x1b]" not in text, f"{what}: an OSC in {text[:2000]!r}"
    text = re.sub(OWN_SEQUENCES, "", text)
    found = [mark for mark in ["\x1b", *FORBIDDEN] if mark in text]
    assert not found, f"{what}: {found!r} in {text[:2000]!r}"


def every_command(home: Home):
    name = f"bad{ESCAPES}tool"
    result = {"content": [{"type": "text", "text": f"result {ESCAPES}"}]}
    uri = "x://text"
    entry = home.hostile(
        "evil",
        tools=["say", "fail", {"name": name, "description": f"described {ESCAPES}"}],
        prompts=[{"name": "prompt", "description": f"described {ESCAPES}"}],
        resources=[{"uri": uri, "name": f"named {ESCAPES}"}],
        contents={uri: f"content {ESCAPES}"},
        results={"say": result},
        errors={"fail": {"code": -32000, "message": f"failed {ESCAPES}"}},
        serverInfo={"name": f"info {ESCAPES}", "version": ESCAPES},
        instructions=ESCAPES,
        stderr=f"complaint {ESCAPES}\n",
    )
    daemon = home.serve({"evil": entry, "dead": {"command": "/bin/sh", "args": ["-c", f"echo '{ESCAPES}' >&2; exit 1"]}})
    daemon.until_status("evil", "connected")
    daemon.client(info={"name": f"client {ESCAPES}", "version": ESCAPES})
    commands = [
        ["list"],
        ["get", "evil"],
        ["get", "dead"],
        ["health"],
        ["tools"],
        ["resources"],
        ["prompts"],
        ["call", "evil/say", f"text={ESCAPES}"],
        ["call", "evil/fail"],
        ["call", f"evil/{name}"],
        ["call", "evil/say", "--json"],
        ["read", uri],
        ["read", "--json", uri],
        ["logs", "evil"],
        ["logs", "dead"],
        ["events"],
        ["switches"],
        ["stats"],
        ["records"],
        ["records", "--json"],
        ["call", f"nope{ESCAPES}/x"],
        ["get", f"nope{ESCAPES}"],
    ]
    for command in commands:
        _assert_harmless(" ".join(command[:2]), home.run_in_terminal(*command))
    calls = until("records", lambda: daemon.rest("GET", "/api/call-records")[1].get("calls"))
    for call in calls:
        _assert_harmless("records ID", home.run_in_terminal("records", call["id"]))
        for key in ("arguments_cid", "result_cid"):
            if call.get(key):
                _assert_harmless("object", home.run_in_terminal("object", call[key]))


def a_configuration(home: Home):
    config = home.configure({f"bad{ESCAPES}": {"command": ESCAPES}, "x": {ESCAPES: 1, "url": f"http://{ESCAPES}/"}})
    for command in (["validate", config], ["resolve", "--config", config], ["list", "--config", config]):
        _assert_harmless(command[0], home.run_in_terminal(*command))


def an_approval(home: Home):
    daemon = home.serve({}, ownTools=["control"])
    entry = {"name": "y", "command": f"/bin/true{ESCAPES}", "env": {f"K{n}": ESCAPES for n in range(50)}}
    entry["args"] = ["\u0430pple"]  # A Cyrillic letter that looks like an `a`.
    daemon.client(token=daemon.token).call("add_server", entry)
    if daemon.server("y") is None:
        entry["command"], entry["env"] = "/bin/true", {"K": ESCAPES}
        daemon.client(token=daemon.token).call("add_server", entry)
    shown = home.run("approve", "y")
    _assert_harmless("approve", shown.stdout + shown.stderr)
    text = (shown.stdout + shown.stderr).decode()
    assert "\u0430pple" not in text or "430" in text or "look" in text, f"a homoglyph is not marked: {text}"


def programs_that_stay(home: Home):
    """`serve` and `mcp` in a terminal, with all that they log."""
    mark = f"mark {ESCAPES}"
    listeners = [home.listener() for _ in range(2)]
    listeners[0].answer = lambda _: (500, {"content-type": "text/plain"}, (mark * 3).encode())
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": mark, "data": mark}}
    listeners[1].answer = lambda _: (200, {"content-type": "application/json"}, json.dumps(error).encode())
    shell = f"printf '%s\\n' '{ESCAPES}'; echo '{ESCAPES}' >&2; exit 1"
    config = home.configure(
        {
            "evil": home.hostile(
                "evil",
                tools=["say", {"name": mark, "title": mark, "description": mark}],
                serverInfo={"name": mark, "version": mark},
                instructions=mark,
                stderr=f"{mark}\n",
            ),
            "dead": {"command": "/bin/sh", "args": ["-c", shell]},
            "absent": {"command": f"/nonexistent/{ESCAPES}", "cwd": f"/nonexistent/{ESCAPES}"},
            "broken": {"url": listeners[0].url()},
            "refusing": {"url": listeners[1].url()},
        }
    )
    for command in (
        ["serve", "-vvv", "--listen", "127.0.0.1:0", "--config", config],
        ["mcp", "-vvv", "--config", config],
        ["call", "-vvv", "--config", config, f"evil/{mark}"],
        ["tools", "-vvv", "--config", config],
    ):
        _assert_harmless(command[0], home.run_in_terminal(*command, seconds=4))


def words_of_the_user(home: Home):
    """What stands on the command line, or in the environment, may come from elsewhere, too."""
    home.serve({})
    for command in (
        *(["logs", ESCAPES], ["get", ESCAPES], ["call", "x/y", "--args", ESCAPES], ["read", ESCAPES]),
        *(["records", ESCAPES], ["object", ESCAPES], ["approve", ESCAPES], ["add", ESCAPES, "--", ESCAPES]),
        *(["token", "add", ESCAPES], ["token", "remove", ESCAPES], ["switches", "off", ESCAPES, ESCAPES]),
        *(["requests", "answer", "1", ESCAPES], ["switches", "clear", ESCAPES]),
        *(["records", "--since", ESCAPES], ["resolve", ESCAPES], ["list", "--url", f"http://{ESCAPES}"], [ESCAPES]),
        *(["list", f"--{ESCAPES}"], ["list", "--config", ESCAPES]),
    ):
        _assert_harmless(" ".join(command[:2]), home.run_in_terminal(*command))
    for name in ("MAINSTAY_URL", "MAINSTAY_TOKEN", "MAINSTAY_CONFIG"):
        home.environment[name] = ESCAPES
        _assert_harmless(name, home.run_in_terminal("list"))
        del home.environment[name]


def directives_for_the_log(home: Home):
    home.environment["MAINSTAY_LOG"] = ESCAPES
    _assert_harmless("MAINSTAY_LOG", home.run_in_terminal("validate", home.configure({})))


def _live(mark: Path) -> list[str]:
    """Texts that have a shell touch a file, if it reads them as its own words."""
    path, here = str(mark), "${IFS}"
    return [
        *(f"$(touch {path})", f"`touch {path}`", f"$(touch{here}{path})", f"`touch{here}{path}`"),
        *(f"; touch {path};", f"&touch {path}&", f"|touch {path}", f">{path}", f"\ntouch {path}\n"),
        *(f"' ; touch {path} ; '", f'" ; touch {path} ; "', f"'\"$(touch {path})", f"\\'$(touch {path})"),
        *(f"'$(touch {path})'", f'"$(touch {path})"', f"$'\\x60'$(touch {path})", f"\u2019$(touch {path})"),
    ]


def _pasted(printed: str, mark: Path) -> list[str]:
    """The commands in a text that name the file, in each length at which somebody may take them for whole."""
    commands = []
    for line in printed.splitlines():
        for start in re.finditer(r"mainstay [a-z]", line):
            rest = line[start.start() :]
            ends = [len(rest), *(end.start() for end in re.finditer("`", rest))]
            commands += [rest[:end] for end in ends if mark.name in rest[:end]]
    return commands


def _paste(home: Home, printed: str, mark: Path) -> list[str]:
    """Runs the commands in a text by a shell, and returns them."""
    programs = home.path / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "mainstay").unlink(missing_ok=True)
    (programs / "mainstay").symlink_to(home.mainstay)
    environment = {**home.environment, "PATH": f"{programs}:{home.environment['PATH']}"}
    commands = _pasted(printed, mark)
    for command in commands:
        subprocess.run(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            cwd=home.path,
            timeout=ANSWER_SECONDS,
        )
        assert not mark.exists(), f"a shell obeys {command!r} of {printed!r}"
    return commands


def commands_for_the_next_page(home: Home):
    """A registry names the next page, and the user has named the word that is looked for."""
    mark, registry = home.path / "touched", home.listener()
    listed = {"server": {"name": "io.github.a/files", "description": "it", "version": "1.0.0"}}
    home.environment["MAINSTAY_REGISTRY"] = registry.url("")
    for live in _live(mark):
        page = {"servers": [listed], "metadata": {"nextCursor": f"c1{live}"}}
        registry.answer = lambda _: (200, {"content-type": "application/json"}, json.dumps(page).encode())
        for word in ("files", f"files{live}"):
            shown = home.run("search", word)
            before = len(registry.requests)
            printed = (shown.stdout + shown.stderr).decode()
            assert _paste(home, printed, mark), f"no command in {printed!r}"
            # Pasted, it is the same program, and asks the registry.
            assert len(registry.requests) > before, f"nothing came of {printed!r}"


def commands_that_name_a_tool(home: Home):
    """A tool is named by its server, in hints of what to do next."""
    mark = home.path / "touched"
    names = [f"slow{live}" for live in _live(mark)]
    daemon = home.serve({"evil": home.hostile("evil", tools=names, prompts=names)})
    daemon.until_status("evil", "connected")
    found = []
    for name in names:
        tool = f"evil/{name}"
        for command in (
            *(["call", f"{tool}x"], ["tools", "get", f"{tool}x"], ["tools", tool], ["tools", "get", tool]),
            *(["prompts", "get", f"{tool}x"], ["read", tool], ["records", "--text", tool], ["get", tool]),
        ):
            shown = home.run(*command)
            found += _paste(home, (shown.stdout + shown.stderr).decode(), mark)
    assert found, "no hint names a tool"


def commands_after_an_interrupted_call(home: Home):
    """Ctrl-C during a call has a hint that names the tool."""
    mark = home.path / "touched"
    names = [f"slow{live}" for live in _live(mark)]
    daemon = home.serve({"evil": home.hostile("evil", tools=names)})
    daemon.until_status("evil", "connected")
    for number, name in enumerate(names, 1):
        call = subprocess.Popen(
            [home.mainstay, "call", f"evil/{name}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=home.environment,
            cwd=home.path,
        )
        until("the call", lambda: len(home.received("evil", "tools/call")) >= number)
        call.send_signal(signal.SIGINT)
        printed, _ = call.communicate(timeout=ANSWER_SECONDS)
        assert call.returncode == 130, f"{call.returncode}: {printed!r}"
        assert _paste(home, printed.decode(), mark), f"no command in {printed!r}"
