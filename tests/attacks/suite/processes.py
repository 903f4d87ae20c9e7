"""Processes: what a server has started ends with it, wherever it hides, and nothing else does."""

import sys
from pathlib import Path

from .world import Home, Skipped, until

# What a stray sleeps, by which it is known.
SECONDS = "1234.5"

# How a program leaves its parent, group and session behind, and its environment. `STRAY` writes down its process id,
# and sleeps.
HIDING = {
    "a daemon": "(setsid STRAY &)",
    "a daemon without an environment": "(env -i setsid STRAY &)",
    "a daemon of a daemon": "(env -i setsid sh -c '(setsid STRAY &)' &)",
    "one that ignores signals": "(env -i setsid sh -c \"trap '' HUP INT TERM; exec STRAY\" &)",
    "one without open files": "(env -i setsid STRAY <&- >&- 2>&- &)",
    "one elsewhere": "(cd / && umask 0 && env -i setsid STRAY &)",
}


class _Hiding:
    """A server that starts strays, each anew with each of its processes."""

    def __init__(self, home: Home, name: str):
        self.folder = home.path / f"{name}.strays"
        self.folder.mkdir()
        lines = []
        for number, (what, hide) in enumerate(HIDING.items()):
            program = home.path / f"{name}-stray-{number}"
            program.write_text(f"#!/bin/sh\necho $$ >>'{self.folder / what}'\nexec /bin/sleep {SECONDS}\n")
            program.chmod(0o755)
            lines.append(hide.replace("STRAY", str(program)))
        shell = "\n".join([*lines, 'exec "$0" "$@"'])
        entry = home.hostile(name, tools=["say"])
        self.entry = {"command": "sh", "args": ["-c", shell, entry["command"], *entry["args"]]}

    def all(self) -> dict[str, list[int]]:
        """The process ids of all strays until now."""
        return {it.name: [int(line) for line in it.read_text().split()] for it in self.folder.iterdir()}

    def living(self) -> dict[str, list[int]]:
        """Those that are still there."""
        return {what: [pid for pid in ids if _lives(pid)] for what, ids in self.all().items()}

    def until_there(self, starts: int):
        """Waits until each of so many processes of the server has started its strays, and the last ones sleep."""

        def is_there():
            started = self.all().values()
            return len(started) == len(HIDING) and all(len(ids) == starts and _lives(ids[-1]) for ids in started)

        until(f"the strays of {starts} processes", is_there)
        self.assert_only_the_last("with its server")

    def assert_only_the_last(self, when: str):
        started, living = self.all(), self.living()
        for what, ids in started.items():
            assert living[what] == ids[-1:], f"{what}, {when}: of {ids} there are {living[what]}"

    def assert_gone(self, when: str):
        left = {what: ids for what, ids in self.living().items() if ids}
        assert not left, f"{when} there are {left}"


def _lives(pid: int) -> bool:
    """Whether a stray is there, and no other process of its id."""
    try:
        return SECONDS in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def those_that_hide_from_their_server(home: Home):
    if sys.platform != "linux":
        raise Skipped("elsewhere nothing is promised")
    one, other = _Hiding(home, "one"), _Hiding(home, "other")
    daemon = home.serve({"one": one.entry, "other": other.entry})
    for name, server in (("one", one), ("other", other)):
        daemon.until_status(name, "connected")
        server.until_there(1)
    assert home.run("stop", "one").returncode == 0
    one.assert_gone("after `stop`")
    assert home.run("start", "one").returncode == 0
    one.until_there(2)
    assert home.run("restart", "one").returncode == 0
    one.until_there(3)
    home.configure({"other": other.entry})
    assert home.run("reload").returncode == 0
    until("the end of the server", lambda: daemon.server("one") is None)
    until("the end of its strays", lambda: not any(one.living().values()), 10)
    other.assert_only_the_last("with another server")
    daemon.stop()
    other.assert_gone("after the daemon's end")
