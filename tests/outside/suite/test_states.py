"""Servers that are well and were taken for ill, or for faulty: what is said of them."""

import time

from .eras import PLAY, VENV_2
from .operated import Operated
from .stage import MARK, NODE, VENV, Door, Stage, free_port

RETRY = 10  # seconds; a list that failed is asked for again after about that long, later less often


class States(Operated):
    name = "states"

    def entries(self):
        def entry(command, *arguments):
            return {
                "command": str(command),
                "args": list(map(str, arguments)),
                "env": {MARK: self.stage.mark},
            }

        nowhere = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
        mcp_2 = (VENV_2 / "python", "-W", "ignore::DeprecationWarning", PLAY / "servers/mcp2.py")
        return {
            "postgres": entry(NODE / "mcp-server-postgres", nowhere),
            "mcp-1": entry(VENV / "mcp-server-time"),
            # Longer than it is waited for the answer to the first question.
            "mcp-1-slow": entry("sh", "-c", f"sleep 3; exec {VENV / 'mcp-server-time'}"),
            "mcp-2": entry(*mcp_2, "mcp-2"),
        }

    def said(self) -> list[str]:
        """What it has logged."""
        return (self.stage.folder / f"{self.name}.log").read_text("utf-8").splitlines()

    def test_a_list_that_fails_is_noted_once_and_the_server_is_well(self):
        server = self.until("connected", "postgres", lambda server: server["connected"])
        time.sleep(max(0, 2 * RETRY + 2 - server["uptimeMs"] / 1000))
        server = self.listed("postgres")
        self.assertEqual(("connected", "healthy"), (server["status"], server["healthStatus"]), server)
        self.assertIn("its resources cannot be listed", server["lastError"])
        _, rows = self.health()
        self.assertRegex("\n".join(rows), r"(?m)^  postgres +healthy +ping: \d+ms$")
        warnings = [line for line in self.said() if "WARN" in line and "postgres" in line]
        self.assertEqual(1, len(warnings), warnings)
        self.assertIn("a list cannot be read", warnings[0])
        code, _, stderr = self.run_command("call", "postgres/query", "--args", '{"sql": "select 1"}')
        self.assertEqual(1, code)
        self.assertIn("ECONNREFUSED", stderr)  # which is the server's own answer

    def test_nothing_is_held_against_python_servers_that_start_and_stop(self):
        names = ["mcp-1", "mcp-1-slow", "mcp-2"]
        for name in names:
            self.until("connected", name, lambda server: server["connected"])
        code, _, stderr = self.run_command("restart", *names)
        self.assertEqual(0, code, stderr)
        faults = [line for line in self.said() if "WARN" in line and "mcp-" in line]
        self.assertEqual([], faults)


def tests(stage: Stage):
    if stage.mainstay:
        door = Door("its commands", {})
        yield States("test_nothing_is_held_against_python_servers_that_start_and_stop", stage, door)
        yield States("test_a_list_that_fails_is_noted_once_and_the_server_is_well", stage, door, "postgres")
