"""The state directory: nobody else's, and what lies in it is believed only if it is ours."""

import json
import os

from .world import Home, Skipped


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
