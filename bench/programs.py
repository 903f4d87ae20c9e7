"""The programs of the benchmarks: built, installed, run."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent.parent
STOP_SECONDS = 10


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Failed(Exception):
    """What a person should read instead of a traceback."""


def build(packages: list[str], profile: str = "dist") -> Path:
    """Builds, as what is shipped unless another profile is named; returns where the programs are."""
    note(f"building {', '.join(packages)}")
    selection = [word for package in packages for word in ("--package", package)]
    subprocess.run(["cargo", "build", "--profile", profile, *selection], cwd=WORKSPACE, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version=1"],
        cwd=WORKSPACE, check=True, stdout=subprocess.PIPE,
    )
    return Path(json.loads(metadata.stdout)["target_directory"]) / profile


def installed(program: str, package: str, else_what: str = "") -> str:
    """Where a program is; Debian's is installed now if there is none."""
    search = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    if found := shutil.which(program, path=search):
        return found
    if shutil.which("apt-get"):
        note(f"installing {package}")
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        for words in (["update", "-qq"], ["install", "-qq", "-y", package]):
            subprocess.run([*sudo, "apt-get", *words], stdout=sys.stderr, check=False)
        if found := shutil.which(program, path=search):
            return found
    raise Failed(" ".join(filter(None, (f"{program} was not found: install it", else_what))))


@contextlib.contextmanager
def running(
    command: list[str], log: Path, patience: float = STOP_SECONDS, **options
) -> Iterator[subprocess.Popen]:
    """A process that is ended, by its pid, when the block is left: killed if that takes too long."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
