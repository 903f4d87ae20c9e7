"""The state directory: nobody else's, and what lies in it is believed only if it is ours."""

import json
import os
import shutil
import time

from .world import Home, Skipped, until


def a_directory_that_others_can_write_to(home: Home):
    home.state.mkdir()
    for mode in (0o777, 0o707, 0o703):
        home.state.chmod(mode)
        try:
            home.serve({})
        except AssertionError as refused:
            assert str(home.state) in str(refused), f"{refused}"
        else:
            raise AssertionError(f"mode {mode:o} is accepted")


def a_directory_of_somebody_else(home: Home):
    if os.geteuid() != 0:
        raise Skipped("only root can give a directory away")
    home.state.mkdir(mode=0o700)
    os.chown(home.state, 65534, 65534)
    try:
        home.serve({})
    except AssertionError as refused:
        assert str(home.state) in str(refused), f"{refused}"
    else:
        raise AssertionError("somebody else's directory is accepted")


def a_token_file_outside_the_directory(home: Home):
    listener = home.listener()
    home.serve({})
    told = home.state / "daemon.json"
    secret = home.path / "id_secret"
    secret.write_text("not-a-token-of-mainstay")
    for name in (str(secret), "../id_secret"):
        true = json.loads(told.read_text())
        told.write_text(json.dumps({**true, "url": listener.url(""), "token_file": name}))
        home.run("list")
        assert not listener.heard("not-a-token"), f"{name}: {listener.requests}"


def files_are_not_written_through_links(home: Home):
    home.state.mkdir(mode=0o700)
    target = home.path / "precious"
    target.write_text("precious")
    for name in ("token", "daemon.json", "tokens.json", "lock"):
        (home.state / name).symlink_to(target)
    try:
        home.serve({}).stop()
    except AssertionError:
        pass
    assert target.read_text() == "precious", "a link was followed"


def a_way_that_others_can_change(home: Home):
    """Who can rename a directory on the way can put another state directory in its place."""
    way = home.path / "way"
    way.mkdir()
    home.state = way / "state"
    home.environment["MAINSTAY_HOME"] = str(home.state)
    nobody = 65534 if os.geteuid() == 0 else None

    def attempt() -> str:
        try:
            home.serve({}).stop()
        except AssertionError as refused:
            return str(refused)
        return ""

    way.chmod(0o777)
    assert str(way) in attempt(), "a folder above that everybody writes to is accepted"
    way.chmod(0o1777)
    assert not attempt(), "a folder such as /tmp is refused"
    if nobody is None:
        raise Skipped("only root can give a directory away")
    way.chmod(0o775)
    os.chown(way, 0, nobody)
    assert str(way) in attempt(), "a folder above that another group writes to is accepted"
    os.chown(way, nobody, 0)
    way.chmod(0o755)
    assert str(way) in attempt(), "a folder above that is somebody else's is accepted"
    os.chown(way, 0, 0)
    link = home.path / "link"
    link.symlink_to(home.state)
    os.lchown(link, nobody, nobody)
    home.environment["MAINSTAY_HOME"] = str(link)
    assert str(link) in attempt(), "somebody else's link is followed"


def other_things_in_the_place_of_files(home: Home):
    """A pipe, a hard link, a folder, or what others can write to: refused or replaced, and never waited for."""
    precious, waited = home.path / "precious", []
    names = ("token", "tokens.json", "session.key", "daemon.json", "switches.json", "ended-sessions", "lock")
    nested = ("journal/journal.db", "logs/mcp-calm.log", "catalogs/.targets.json", "catalogs/calm.json")
    for name in (*names, *nested):
        for kind in ("pipe", "hard link", "folder", "open to all"):
            shutil.rmtree(home.state, ignore_errors=True)
            home.state.mkdir(mode=0o700)
            file = home.state / name
            file.parent.mkdir(mode=0o700, exist_ok=True)
            precious.write_text("precious")
            if kind == "pipe":
                os.mkfifo(file)
            elif kind == "hard link":
                os.link(precious, file)
            elif kind == "folder":
                file.mkdir()
            else:
                file.write_text("0" * 64)
                file.chmod(0o666)
            begun = time.monotonic()
            try:
                # It takes the directory, or refuses it, within a moment.
                daemon = home.start("--config", home.configure({}), start_seconds=4)
            except AssertionError as refused:
                if "{" not in str(refused):
                    waited.append(f"{name} as {kind}: nothing was said for {time.monotonic() - begun:.0f} s")
            else:
                daemon.stop()
            (home.path / "daemon.log").unlink(missing_ok=True)
            assert precious.read_text() == "precious", f"{name} as {kind}: it was written to"
    assert not waited, "; ".join(waited)


def a_daemon_that_is_none(home: Home):
    """What `daemon.json` says is believed for an address of this machine, and if nobody else wrote it."""
    listener = home.listener()
    daemon = home.serve({})
    told = home.state / "daemon.json"
    true = json.loads(told.read_text())
    for url in (
        "http://evil.example",
        f"http://127.0.0.1:{listener.port}@evil.example",
        f"http://evil.example:{listener.port}",
        "file:///etc/passwd",
    ):
        told.write_text(json.dumps({**true, "url": url}))
        told.chmod(0o600)
        assert home.run("list").returncode != 0, url
    told.write_text(json.dumps({**true, "url": listener.url("")}))
    told.chmod(0o666)
    home.run("list")
    assert not listener.heard(daemon.token), "a file that others can write is believed"
    if os.geteuid() == 0:
        told.chmod(0o600)
        os.chown(told, 65534, 65534)
        home.run("list")
        assert not listener.heard(daemon.token), "somebody else's file is believed"
    told.unlink()
    (home.path / "mine").write_text("a-secret-of-somebody")
    (home.state / "link").symlink_to(home.path / "mine")
    (home.state / "sub").mkdir()
    (home.state / "sub" / "token").write_text("a-secret-of-somebody")
    for name in ("link", "sub/token", "sub/../../mine", "./token/../../mine", "/proc/self/environ", "."):
        told.write_text(json.dumps({**true, "url": listener.url(""), "token_file": name}))
        told.chmod(0o600)
        home.run("list")
        assert not listener.heard("a-secret"), f"{name}: {listener.requests}"


def a_configuration_that_others_can_write(home: Home):
    """It says which programs are run: it is not read, at the start or later."""
    path = home.configure({"calm": home.hostile("calm", tools=["say"])})
    daemon = home.start("--config", path)
    daemon.until_status("calm", "connected")
    home.configure({"calm": home.hostile("calm", tools=["say"]), "evil": home.hostile("evil", tools=["say"])})
    path.chmod(0o666)
    said = until("the refusal", lambda: "others can write to" in daemon.log.read_text())
    assert said and daemon.server("evil") is None
    reloaded = home.run("reload")
    assert reloaded.returncode != 0 and b"others can write to" in reloaded.stderr, reloaded
    daemon.stop()
    for command in (("serve", "--config", path, "--listen", "127.0.0.1:0"), ("validate", path)):
        refused = home.run(*command)
        assert refused.returncode == 2 and b"others can write to" in refused.stderr, refused
    assert not home.received("evil")
    # A folder in which others can put another file in its place.
    path.chmod(0o600)
    home.path.chmod(0o777)
    refused = home.run("validate", path)
    assert refused.returncode == 2 and b"others can write to" in refused.stderr, refused
    home.path.chmod(0o700)
    assert home.run("validate", path).returncode == 0
