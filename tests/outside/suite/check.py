"""What the clients' tests have in common: a check is one question at one door, compared with the direct answer."""

import unittest
from collections.abc import Callable
from typing import TypeVar

from .stage import Door, Stage

T = TypeVar("T")


class Check(unittest.TestCase):
    """Test methods take nothing; what they ask is in `door` and `server`."""

    maxDiff = 4000
    client = "?"

    def __init__(self, method: str, stage: Stage, door: Door, server: str = "*"):
        super().__init__(method)
        self.stage, self.door, self.server = stage, door, server

    def __str__(self):
        what = self._testMethodName.removeprefix("test_").replace("_", " ")
        return f"{self.client}: {what}, {self.server} through {self.door.label}"

    def chosen(self):
        """It will be run: not every test that is made is asked for."""

    def shortDescription(self):
        return None

    def assert_same(self, direct: T, through: T, again: Callable[[], tuple[T, T]] | None = None):
        """Equal at once; or, for answers that tell the time, equal when both are asked within one tick."""
        for _ in range(8 if again else 0):
            if direct == through:
                break
            direct, through = again()
        self.assertEqual(direct, through)


def checks(kind: type[Check], methods: list[str], stage: Stage, servers: list[str] = ("*",)):
    """Each method at each door for each server."""
    for server in servers:
        for door in stage.doors:
            for method in methods:
                yield kind(f"test_{method}", stage, door, server)
