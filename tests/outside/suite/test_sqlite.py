"""A live SQLite server under preset `manual`: its health, a call that loses it, a reconnect by hand.

What a person sees is looked at, so Mainstay's own commands and its shell are the clients.
"""

import json
import os
import re
import select
import signal
import subprocess
import time

from .operated import Operated
from .stage import MARK, PATIENCE, VENV, Door, Stage

NAME = "sqlite"
# Minutes of work, in which the server can be killed.
LONG = """SELECT count(*) FROM (
  WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2000000000)
  SELECT n FROM number
)"""


class Sqlite(Operated):
    name = NAME

    def entries(self):
        database = self.stage.folder / "live.db"
        command, arguments = str(VENV / "mcp-server-sqlite"), ["--db-path", str(database)]
        env = {MARK: self.stage.mark}
        return {"db": {"command": command, "args": arguments, "env": env, "preset": "manual"}}

    def call(self, tool: str, **arguments: str) -> str:
        code, stdout, stderr = self.run_command("call", f"db/{tool}", "--args", json.dumps(arguments))
        self.assertEqual(0, code, stderr)
        return stdout

    def only_health(self) -> tuple[int, str]:
        """Its exit code and its only row."""
        code, rows = self.health()
        self.assertEqual(1, len(rows), rows)
        return code, rows[0]

    def test_health_reconnect_and_a_failed_call(self):
        self.call("create_table", query="CREATE TABLE person (name TEXT)")
        self.call("write_query", query="INSERT INTO person VALUES ('Zoë ☃')")
        self.assertIn("Zoë ☃", self.call("read_query", query="SELECT name FROM person"))
        code, row = self.only_health()
        self.assertEqual(0, code, row)
        self.assertRegex(row, r"^  db +healthy +ping: \d+ms$")

        with self.start("call", "db/read_query", "--args", json.dumps({"query": LONG})) as lost:
            server = self.until("called", "db", lambda server: server["callsInFlight"] == 1)
            os.kill(server["pid"], signal.SIGKILL)
            _, stderr = lost.communicate(timeout=PATIENCE)
        self.assertEqual(1, lost.returncode, stderr)
        self.assertIn("Server 'db' was lost during the call", stderr)
        self.assertRegex(stderr, r"\(server db is (crashed|disconnected)\)")

        server = self.until("down", "db", lambda server: not server["connected"])
        self.assertEqual(("crashed", 1), (server["status"], server["crashCount"]), server)
        code, row = self.only_health()
        self.assertEqual(1, code, row)
        self.assertRegex(row, r"^  db +error +.*signal 9")
        code, _, stderr = self.run_command("call", "db/list_tables")
        self.assertNotEqual(0, code)
        self.assertIn("Server 'db' is crashed", stderr)

        code, stdout, stderr = self.run_command("reconnect", "db")
        self.assertEqual(0, code, stderr)
        self.assertIn("db is connected", stdout)
        self.assertIn("Zoë ☃", self.call("read_query", query="SELECT name FROM person"))
        self.assertEqual(0, self.only_health()[0])

    def test_the_same_in_the_shell(self):
        """In a shell with the server of its own, which the shell asks in the background."""
        folder = self.stage.folder / "in-the-shell"
        folder.mkdir()
        entry = self.entries()["db"]
        entry["args"] = ["--db-path", str(folder / "live.db")]
        config = folder / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"db": entry}}))
        command = [str(self.stage.mainstay), "shell", "--config", str(config), "--health-interval", "1"]
        home = {"MAINSTAY_HOME": str(folder)}
        with subprocess.Popen(
            command,
            env=os.environ | home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                self.use(Script(self, process))
            finally:
                process.kill()

    def use(self, shell: "Script"):
        shell.types("/call db/create_table query='CREATE TABLE person (name TEXT)'")
        shell.says(r"Table created")
        shell.types("""/call db/write_query {"query": "INSERT INTO person VALUES ('Zoë ☃')"}""")
        shell.says(r"affected_rows")
        shell.types("/server health")
        shell.says(r"^Server Health\n  db +healthy +ping: \d+ms$")
        shell.types("/servers")
        pid = shell.says(r"^db +connected +stdio +\d+ +(\d+)")[1]
        shell.types("/call db/read_query " + json.dumps({"query": LONG}))
        shell.types("/health")
        self.until_busy(int(pid))
        os.kill(int(pid), signal.SIGKILL)
        shell.says(r"Server 'db' was lost during the call.*\(server db is (crashed|disconnected)\)")
        # Its process may be gone already, or only its pipes.
        shell.says(r"^  db +error +(crashed|disconnected): ")
        shell.types("/call db/list_tables")
        shell.says(r"Server 'db' is (crashed|disconnected|not connected)")
        shell.types("/server reconnect db")
        shell.says(r"^db is connected, \d+ tools$")
        shell.types("/call db/read_query query='SELECT name FROM person'")
        shell.says("Zoë ☃")
        shell.types("/server health db")
        shell.says(r"^  db +healthy +ping: \d+ms$")
        shell.types("/quit")
        self.assertEqual(1, shell.process.wait(timeout=PATIENCE))

    def until_busy(self, pid: int):
        """Waits until the process has used a moment of CPU time more than now."""

        def used() -> int:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        before, end = used(), time.monotonic() + PATIENCE
        while used() < before + 20:
            self.assertLess(time.monotonic(), end, "it never was at work")
            time.sleep(0.05)


class Script:
    """A shell that is told one command after the other."""

    def __init__(self, test: Sqlite, process: subprocess.Popen):
        self.test, self.process = test, process
        self.said = ""

    def types(self, line: str):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def says(self, pattern: str) -> re.Match:
        """Reads up to what fits. What stands before it counts no more."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.said, re.MULTILINE)):
            left = end - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, left))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            self.test.assertTrue(piece, f"it never said {pattern!r}: {self.said}")
            self.said += piece.decode()
        self.said = self.said[found.end() :]
        return found


def tests(stage: Stage):
    if stage.mainstay:
        door = Door("its commands", {})
        yield Sqlite("test_health_reconnect_and_a_failed_call", stage, door, NAME)
        yield Sqlite("test_the_same_in_the_shell", stage, door, NAME)
