"""Secrets that stand for all secrets of their kind, and the search for them in everything that somebody can read."""

import base64
import contextlib
import re
import secrets
import threading
from pathlib import Path
from urllib.parse import quote

# A run of letters and digits of this length tells a secret: all escapes, of URLs, JSON and HTML, leave it as it is.
TELLING_LETTERS = 12
# So much of the beginning or the end of a longer secret tells it, too.
TELLING_PART = 24
# Base64 of fewer characters could be a coincidence.
TELLING_BASE64 = 12
# What is shown of the place in which a secret was found.
BEFORE = 100
GLANCE_SECONDS = 0.05
# What differs in the names of places of one kind: numbers, and names of objects.
KINDS = re.compile(r"\d+|bafk\w+")
URL_ALPHABET = bytes.maketrans(b"+/", b"-_")


def forms(secret: bytes) -> set[bytes]:
    """How a secret can be written down: as it is, escaped or cut, in base64, and as hexadecimal digits."""
    found = {secret, secret[:TELLING_PART], secret[-TELLING_PART:], secret.hex().encode()}
    found.update(re.findall(rb"[0-9A-Za-z]{%d,}" % TELLING_LETTERS, secret))
    for written in {secret, quote(secret, safe="").encode()}:
        found |= {middle for before in range(3) if len(middle := within_base64(written, before)) >= TELLING_BASE64}
    return found | {form.translate(URL_ALPHABET) for form in found}


def within_base64(secret: bytes, before: int) -> bytes:
    """What is sure of its base64, behind so many other bytes: what stands beside it changes the ends."""
    encoded = base64.b64encode(bytes(before) + secret).rstrip(b"=")
    return encoded[(0, 2, 3)[before] : len(encoded) - ((before + len(secret)) % 3 != 0)]


class Canaries:
    """Secrets by what they are."""

    def __init__(self):
        self.forms: dict[str, set[bytes]] = {}
        # What they are, and the places in which they may be, by the beginnings of their names.
        self.homes: list[tuple[str, str]] = []

    def new(self, what: str, *homes: str) -> str:
        """A secret with characters that are escaped in URLs."""
        secret = f"{secrets.token_hex(8)}+{secrets.token_hex(8)}/{secrets.token_hex(8)}="
        self.add(what, secret, *homes)
        return secret

    def add(self, what: str, secret: str | bytes, *homes: str):
        self.forms.setdefault(what, set()).update(forms(secret if isinstance(secret, bytes) else secret.encode()))
        self.homes += [(what, home) for home in homes]

    def add_key(self, what: str, pem: str, *homes: str):
        """A private key: each of its lines is a secret."""
        for line in pem.splitlines():
            if line and not line.startswith("-----"):
                self.add(what, line, *homes)

    def leaks(self, places: dict[str, bytes]) -> list[str]:
        """Where secrets are that should not be there, with what stands before them. Of places of one kind, such as
        records, one is named.
        """
        found = {}
        for place, content in places.items():
            lower = content.lower()
            for what, written in self.forms.items():
                if any(what == its and place.startswith(home) for its, home in self.homes):
                    continue
                starts = [start for form in written if (start := lower.find(form.lower())) >= 0]
                if starts:
                    before = content[max(0, min(starts) - BEFORE) : min(starts)].decode("utf-8", "replace")
                    found.setdefault((what, KINDS.sub("", place)), f"{what} is in {place}, behind {before!r}")
        return sorted(found.values())


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file by its path within the folder."""
    contents = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # It was there for a moment only.
            if path.is_file():
                contents[str(path.relative_to(folder))] = path.read_bytes()
    return contents


class ProcessWatch:
    """Arguments and environments of all processes below this one, as `ps` shows them, from now on."""

    def __init__(self):
        self.seen: dict[tuple[str, str], set[bytes]] = {}
        self.over = threading.Event()
        self.watching = threading.Thread(target=self.watch, daemon=True)
        self.watching.start()

    def watch(self):
        while not self.over.wait(GLANCE_SECONDS):
            for process in descendants(Path("/proc/self")):
                for file in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        content = (process / file).read_bytes()
                        self.seen.setdefault((process.name, file), set()).add(content)

    def places(self) -> dict[str, bytes]:
        """By the server to which a process belongs, if it belongs to one."""
        places = {}
        for (process, file), contents in list(self.seen.items()):
            environment = b"\0".join(self.seen.get((process, "environ"), ()))
            mark = re.search(rb"(?:\0|^)MAINSTAY_SERVER=([^\0:]*)", environment)
            owner = mark.group(1).decode() if mark else "no server"
            places[f"{file} of {owner}, process {process}"] = b"\0".join(contents)
        return places

    def has_seen(self, owner: str) -> bool:
        return any(place.startswith(f"environ of {owner},") for place in self.places())

    def close(self):
        self.over.set()
        self.watching.join()


def descendants(process: Path):
    for listed in process.glob("task/*/children"):
        with contextlib.suppress(OSError):
            for number in listed.read_text().split():
                child = Path("/proc") / number
                yield child
                yield from descendants(child)
