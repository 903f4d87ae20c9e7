"""What a program for one framework is told, and how it answers: JSON both times."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """Where the server is, and what is asked of it. Names are already those of the door."""

    command: str
    args: list[str]
    env: dict[str, str]
    url: str
    transport: str  # stdio, http, sse
    model: str  # the stand-in's address
    calls: list[tuple[str, dict]]
    prompt: tuple[str, dict]
    resource: str
    patience: float  # seconds


def main(run: Callable[[Job], Awaitable[dict]]):
    job = Job(**json.loads(sys.argv[1]))
    print(json.dumps(asyncio.run(run(job))))
