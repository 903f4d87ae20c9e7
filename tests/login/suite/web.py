"""HTTP requests of a test, and waiting for conditions."""

import http.client
import json
import random
import socket
import time
from dataclasses import dataclass
from http.client import HTTPMessage
from urllib.parse import urlencode, urlsplit

ANSWER_SECONDS = 30
GLANCE_SECONDS = 0.05


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage
    text: str

    @property
    def json(self):
        return json.loads(self.text)


def ask(method: str, url: str, *, headers=None, form=None, body=None, seconds: float = ANSWER_SECONDS) -> Answer:
    """One request on a connection of its own. Redirects are not followed."""
    parts = urlsplit(url)
    headers, content = dict(headers or {}), None
    if form is not None:
        headers["content-type"] = "application/x-www-form-urlencoded"
        content = urlencode({name: value for name, value in form.items() if value is not None})
    elif body is not None:
        headers["content-type"] = "application/json"
        content = json.dumps(body)
    connection = http.client.HTTPConnection(parts.netloc, timeout=seconds)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read().decode("utf-8", "replace"))
    finally:
        connection.close()


def free_port() -> int:
    """A port that nobody listens at, and that the system gives to no program that asks for any: it begins later."""
    while True:
        port = random.randrange(20_000, 30_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


def until(what: str, condition, seconds: float = ANSWER_SECONDS):
    """The first true value of a condition; fails if there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(GLANCE_SECONDS)
    raise AssertionError(f"waited in vain for {what}")
