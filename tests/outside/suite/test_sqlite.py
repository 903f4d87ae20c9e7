"""A live SQLite server under preset `manual`: its health, a call that loses it, a reconnect by hand.

What a person sees is looked at, so Mainstay's own commands are the clients.
"""

import json
import os
import signal

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


def tests(stage: Stage):
    if stage.mainstay:
        door = Door("its commands", {})
        yield Sqlite("test_health_reconnect_and_a_failed_call", stage, door, NAME)
