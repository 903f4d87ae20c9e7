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


def references_in_every_field(home: Home):
    """Whatever a reference stands in, a file that is none is refused, and nothing waits for it."""
    fifo = home.path / "fifo"
    os.mkfifo(fifo)
    calm = home.hostile("calm", tools=["say"])
    daemon = home.serve({"calm": calm})
    daemon.until_status("calm", "connected")
    url, program = "http://127.0.0.1:1/", "/bin/true"
    devices = ("/dev/tty", "/dev/stdin", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/kmsg", "/proc/self/mem")
    for path in (fifo, *devices, "/"):
        text = f"${{file:{path}}}"
        for entry in (
            {"url": url + text},
            {"url": url, "headers": {"x": text}},
            {"url": url, "bearerToken": text},
            {"url": url, "healthCheckUrl": url + text},
            {"command": text},
            {"command": program, "args": [text]},
            {"command": program, "cwd": text},
            {"command": program, "env": {"X": text}},
            {"command": program, "args": ["${file:/nonexistent:-" + text + "}"]},
        ):
            checked = home.run("validate", home.configure({"calm": calm, "trap": entry}), seconds=5)
            assert checked.returncode == 2, f"{entry}: {checked}"
            if path == fifo:
                home.run("reload", seconds=5)
                _assert_answers(daemon)
    webhook = {"on": ["server_down"], "webhook": {"url": f"{url}${{file:{fifo}}}"}}
    checked = home.run("validate", home.configure({"calm": calm}, alerts=[webhook]), seconds=5)
    assert checked.returncode == 2, f"an alert: {checked}"


def secrets_in_what_awaits_approval(home: Home):
    """Nothing that a reference names leaves before a person has approved it, in whatever field it stands."""
    secret = home.path / "secret"
    secret.write_text("s3cr3t-of-a-file")
    home.environment["SECRET_OF_MAINSTAY"] = "s3cr3t-of-the-environment"
    listener = home.listener()
    inputs = [{"id": "i", "default": "s3cr3t-input"}]
    daemon = home.serve({}, ownTools=["control", "meta"], inputs=inputs)
    client = daemon.client(token=daemon.token)
    url, program = listener.url(), "/bin/echo"
    references = (
        f"${{file:{secret}}}",
        "${file:/proc/self/environ}",
        "${SECRET_OF_MAINSTAY}",
        "${env:SECRET_OF_MAINSTAY}",
        "${NOBODY:-${SECRET_OF_MAINSTAY}}",
        "$$${SECRET_OF_MAINSTAY}",
        "${input:i}",
    )
    number = 0
    for text in references:
        for entry in (
            {"url": listener.url("/mcp?key=" + text)},
            {"httpUrl": listener.url("/" + text)},
            {"url": url, "headers": {"x": text}},
            {"url": url, "bearerToken": text},
            {"url": url, "inputParams": {"a": text}, "headers": {"x": "${a}"}},
            {"url": url, "env": {"A": text}, "headers": {"x": "${A}"}},
            {"url": url, "healthCheckUrl": listener.url("/health?" + text), "healthCheckIntervalMs": 100},
            {"url": url, "roots": [{"uri": "file:///x", "name": text}]},
            {"command": program, "args": [text]},
            {"command": text},
            {"command": program, "cwd": text},
            {"command": program, "env": {"A": text}},
        ):
            number += 1
            answer = client.call("add_server", {"name": f"x{number}", **entry})
            server = daemon.server(f"x{number}")
            assert server is None or server["status"] == "pending", f"{entry}: {server}"
            assert "s3cr3t" not in str(answer).replace("s3cr3t-input", ""), f"{entry}: {answer}"
    told = str(client.call("list_servers")) + str(daemon.rest("GET", "/api/servers"))
    assert "s3cr3t-of" not in told, "a reference was looked at"
    time.sleep(0.5)
    assert not listener.requests, f"it was asked: {listener.requests[0]}"
    assert b"s3cr3t-of" not in home.kept()
