"""References in a configuration: bounded, and never in the way of anything else."""

import os
import time

from .world import Home


def _assert_answers(daemon, name: str = "calm"):
    answer = daemon.client().call(f"{name}__say", {"text": "hello"})
    assert "hello" in str(answer.get("result")), f"the daemon does not work: {answer}"


def _file_in_the_way(home: Home, path: str):
    calm = home.hostile("calm", tools=["say"])
    daemon = home.serve({"calm": calm})
    daemon.until_status("calm", "connected")
    home.configure({"calm": calm, "trap": {**home.hostile("trap"), "env": {"KEY": f"${{file:{path}}}"}}})
    home.run("reload")
    _assert_answers(daemon)
    trap = daemon.until_status("trap", "error", "failed")
    assert not home.received("trap"), f"it was started: {trap}"
    checked = home.run("validate", home.path / "servers.json")
    assert checked.returncode == 2, f"validate: {checked}"
    assert daemon.memory() < 300 << 20, f"{daemon.memory() >> 20} MiB"


def a_fifo(home: Home):
    fifo = home.path / "fifo"
    os.mkfifo(fifo)
    _file_in_the_way(home, str(fifo))


def an_endless_device(home: Home):
    _file_in_the_way(home, "/dev/zero")


def a_terminal_device(home: Home):
    _file_in_the_way(home, "/dev/ptmx")


def a_link_to_a_fifo(home: Home):
    fifo, link = home.path / "fifo", home.path / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    _file_in_the_way(home, str(link))


def a_large_file(home: Home):
    large = home.path / "large"
    large.write_bytes(b"x" * (2 << 20))
    _file_in_the_way(home, str(large))


def text_that_doubles(home: Home):
    calm = home.hostile("calm", tools=["say"])
    bomb = {"A0": "x" * 64, **{f"A{number}": f"${{A{number - 1}}}" * 64 for number in range(1, 12)}}
    daemon = home.serve({"calm": calm})
    daemon.until_status("calm", "connected")
    home.configure({"calm": calm, "bomb": {**home.hostile("bomb"), "env": bomb}})
    home.run("reload")
    time.sleep(0.5)
    _assert_answers(daemon)
    assert daemon.memory() < 300 << 20, f"{daemon.memory() >> 20} MiB"
    home.run("validate", home.path / "servers.json")


def a_configuration_that_is_a_fifo(home: Home):
    fifo = home.path / "config.json"
    os.mkfifo(fifo)
    checked = home.run("validate", fifo)
    assert checked.returncode != 0 and checked.stderr, f"validate: {checked}"


def a_file_of_a_server_that_awaits_approval(home: Home):
    fifo = home.path / "fifo"
    os.mkfifo(fifo)
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])}, ownTools=["control"])
    daemon.until_status("calm", "connected")
    entry = {**home.hostile("trap"), "name": "trap", "env": {"KEY": f"${{file:{fifo}}}"}}
    answer = daemon.client(token=daemon.token).call("add_server", entry)
    assert "pending" in str(answer), f"{answer}"
    _assert_answers(daemon)
    # A reader would block here until a writer comes, so that opening it for writing would succeed.
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        raise AssertionError("the file is open for reading")
    except OSError:
        pass
