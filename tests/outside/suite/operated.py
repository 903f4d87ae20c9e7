"""A Mainstay of its own in front of a few servers, and its commands: what a person sees is looked at."""

import json
import os
import subprocess
import time
from collections.abc import Callable

from .check import Check
from .stage import PATIENCE


class Operated(Check):
    client = "mainstay"
    name = "?"  # of the daemon

    def entries(self) -> dict[str, dict]:
        raise NotImplementedError

    def setUp(self):
        if self.name not in self.stage.daemons:
            self.stage.serve(self.name, self.entries())

    def start(self, *arguments: str) -> subprocess.Popen:
        home = {"MAINSTAY_HOME": str(self.stage.folder / self.name)}
        command = [str(self.stage.mainstay), *arguments]
        return subprocess.Popen(
            command, env=os.environ | home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run_command(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        return process.returncode, stdout, stderr

    def listed(self, server: str) -> dict:
        code, stdout, stderr = self.run_command("list", "--json")
        self.assertEqual(0, code, stderr)
        return next(entry for entry in json.loads(stdout)["servers"] if entry["name"] == server)

    def until(self, what: str, server: str, condition: Callable[[dict], bool]) -> dict:
        end = time.monotonic() + PATIENCE
        while not condition(found := self.listed(server)):
            self.assertLess(time.monotonic(), end, f"never {what}: {found}")
        return found

    def health(self) -> tuple[int, list[str]]:
        """Its exit code and its rows."""
        code, stdout, stderr = self.run_command("health")
        head, *rows = stdout.splitlines()
        self.assertEqual("Server Health", head, stdout + stderr)
        return code, rows
