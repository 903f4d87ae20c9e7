"""Foreign clients in front of foreign servers of the other era: all that both offer gets through."""

from .check import Check
from .eras import BACKENDS, CLIENTS, MODERN, Backend, Client, Eras
from .stage import Door, Stage

TOOLS = (
    "add ask_model ask_page ask_roots ask_twice ask_user echo fail fate grow note steps touch wait".split()
)
ROOT = "file:///play/r%C3%B6%C3%B6t"


def expected(client: Client, backend: Backend) -> dict:
    """What each step must see, whoever asks whom."""
    uri = f"play://{backend.name}/"
    greeting = "Greet Zoë in Deutsch"
    seen = {
        "revision": client.revision,
        "tools": [TOOLS, True],
        "echo": 'grüße ☃ 😀\u2028 "quoted" \\ \t end',
        "structured": [{"sum": 5.5}, {"sum": 5.5}],
        "failure": [True, True],
        "progress": ["done", [[step, 3, f"step {step}"] for step in (1, 2, 3)]],
        "log": ["noted", ["info", "nöted"]],
        "resources": [[f"{uri}bytes", f"{uri}readme"], [f"{uri}notes/{{id}}"]],
        "read": ["grüße ☃", "AP8=", "note 7"],
        "prompt": [["greet"], greeting],
        "complete": ["Deutsch", "dansk"],
        "cancel": "cancelled",
        "tools changed": True,
        "updated": True,
        "sampling": ["model on Überlege", ["model: Überlege"]],
        "form": ["accept Zoë", ["form: Who?"]],
        "page": ["accept", ["url: Look"]],
        "roots": [ROOT, ["roots"]],
        "two questions": ["Zoë: model on Hello Zoë", ["form: Who?", "model: Hello Zoë"]],
    }
    if client.label.startswith("Inspector"):
        # Each question is a connection, and it tells nobody its revision.
        few = {step: seen[step] for step in ("tools", "structured")}
        return few | {"revision": None, "note": "note 7", "greeting": greeting}
    if client.label.startswith("FastMCP") and client.revision == MODERN:
        del seen["tools changed"], seen["updated"]  # it has no way to listen
    return seen


class Foreign(Check):
    def __init__(self, eras: Eras, client: Client, backend: Backend, door: Door, table: "Table"):
        super().__init__("test_everything_gets_through", eras.stage, door, backend.label)
        self.client = client.title
        self.expected = expected(client, backend)
        self.run_of = (client, backend, door)
        self.eras, self.table = eras, table

    def chosen(self):
        self.eras.expect(*self.run_of)

    def test_everything_gets_through(self):
        seen, failed = self.eras.seen(*self.run_of), []
        for step, expected in self.expected.items():
            found = seen.pop(step, {"error": "never came to this"})
            if found != {"seen": expected}:
                failed.append(step)
            with self.subTest(step=step):
                self.assertEqual({"seen": expected}, found)
        self.table.note(*self.run_of, len(self.expected), failed)
        self.assertEqual({}, seen, "what nobody expected")


class Table:
    """How many steps succeeded, for each client and server a line, for each door a column."""

    def __init__(self):
        self._lines: dict[tuple[str, str], dict[str, str]] = {}

    def note(self, client: Client, backend: Backend, door: Door, steps: int, failed: list[str]):
        cell = f"{steps - len(failed)}/{steps}" + (f" not {', '.join(failed)}" if failed else "")
        self._lines.setdefault((client.title, f"{backend.label}, {backend.revision}"), {})[door.label] = cell

    def __str__(self):
        labels = list(dict.fromkeys(label for cells in self._lines.values() for label in cells))
        lines = [("Client", "Server", *labels)]
        lines += [(*pair, *(cells.get(label, "") for label in labels)) for pair, cells in self._lines.items()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def tests(stage: Stage):
    eras, table = Eras(stage), Table()
    stage.reports.append(table)
    for backend in BACKENDS:
        # One client that needs no translation shows that the server itself plays its part.
        native = next(c for c in CLIENTS if c.revision == backend.revision and "npm" in c.label)
        yield Foreign(eras, native, backend, eras.direct, table)
        for client in CLIENTS:
            met = backend.over_http or not client.slow
            if client.revision != backend.revision and met:
                for door in eras.doors[backend.revision]:
                    yield Foreign(eras, client, backend, door, table)
