"""What each Python client does with the play: one JSON line for every step, with what it saw or why it failed.

The clients differ in how one asks; `Role` is what the script needs of each of them.
"""

import asyncio
import json
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

ROOT = "file:///play/r%C3%B6%C3%B6t"
PATIENCE = 20  # seconds for one step
AGAIN = 10


@dataclass
class Job:
    server: str
    prefix: str
    legacy: bool
    id: str
    url: str  # of the server; where there is none, the command below is it
    command: list[str]
    env: dict[str, str]
    launcher: str  # the same command, as one word

    def uri(self, path: str) -> str:
        return f"play://{self.server}/{path}"


@dataclass
class Answer:
    text: str
    structured: object
    failed: bool


@dataclass
class Role:
    """A connected client. Names are the server's own; the prefix is added here."""

    job: Job
    asked: list[str] = field(default_factory=list)  # the server's questions, as they came
    logs: asyncio.Queue = field(default_factory=asyncio.Queue)

    @property
    def steps(self) -> dict:
        return STEPS

    def connected(self) -> AbstractAsyncContextManager: ...
    def revision(self) -> str: ...
    async def tools(self) -> dict[str, bool]:
        """By name, whether it has an output schema."""
    async def call(self, tool: str, progress=None, **arguments) -> Answer: ...
    async def cancel(self, tool: str, **arguments):
        """Calls, and cancels at the first sign of progress."""
    async def uris(self) -> list[str]: ...
    async def templates(self) -> list[str]: ...
    async def read(self, uri: str) -> str: ...
    async def prompts(self) -> list[str]: ...
    async def prompt(self, name: str, /, **arguments) -> str: ...
    async def complete(self, prompt: str, argument: str, start: str) -> list[str]: ...
    async def want_logs(self): ...
    def changes(self, uri: str) -> AbstractAsyncContextManager[asyncio.Queue]:
        """Announcements of new tools, as `tools`, and of changes of this resource, as its URI."""

    def name(self, name: str) -> str:
        return self.job.prefix + name

    def own(self, names) -> list[str]:
        return [name.removeprefix(self.job.prefix) for name in names if name.startswith(self.job.prefix)]

    # How the user answers.
    def sample(self, text: str) -> str:
        self.asked.append(f"model: {text}")
        return f"model on {text}"

    def elicit(self, mode: str, message: str) -> dict | None:
        self.asked.append(f"{mode}: {message}")
        return {"name": "Zoë"} if mode == "form" else None

    def roots(self) -> str:
        self.asked.append("roots")
        return ROOT


async def tools(role: Role):
    listed = await role.tools()
    names = role.own(listed)
    return sorted(n for n in names if not n.startswith("grown_")), listed[role.name("add")]


async def echo(role: Role):
    return (await role.call("echo", text="grüße ☃ 😀\u2028 \"quoted\" \\ \t end")).text


async def structured(role: Role):
    answer = await role.call("add", a=2, b=3.5)
    return answer.structured, json.loads(answer.text)


async def failure(role: Role):
    answer = await role.call("fail")
    return answer.failed, "deliberate" in answer.text


async def progress(role: Role):
    seen = []

    async def on_progress(done, total, message):
        seen.append([done, total, message])

    return (await role.call("steps", on_progress, count=3)).text, seen


async def log(role: Role):
    await role.want_logs()
    noted = (await role.call("note", text="nöted")).text
    return noted, await role.logs.get()


async def resources(role: Role):
    def own(uris):
        return sorted(uri for uri in uris if uri.startswith(role.job.uri("")))

    return own(await role.uris()), own(await role.templates())


async def read(role: Role):
    return [await role.read(role.job.uri(path)) for path in ("readme", "bytes", "notes/7")]


async def prompt(role: Role):
    return role.own(await role.prompts()), await role.prompt("greet", name="Zoë", language="Deutsch")


async def complete(role: Role):
    return await role.complete("greet", "language", "d")


async def cancel(role: Role):
    await role.cancel("wait", id=role.job.id)
    while (fate := (await role.call("fate", id=role.job.id)).text) == "running":
        await asyncio.sleep(0.05)
    return fate


async def tools_changed(role: Role):
    async with role.changes(role.job.uri("readme")) as changes:
        await role.call("grow", id=role.job.id)
        while await changes.get() != "tools" or role.name(f"grown_{role.job.id}") not in await role.tools():
            pass
    return (await role.call(f"grown_{role.job.id}")).text == role.job.id


async def updated(role: Role):
    """Again and again: who stops to listen and starts anew at once is told, too."""
    uri = role.job.uri("readme")
    for _ in range(AGAIN):
        async with role.changes(uri) as changes:
            await role.call("touch", uri=uri)
            while (change := await changes.get()) == "tools":
                pass
    return change == uri


def asking(tool: str, **arguments):
    async def step(role: Role):
        role.asked.clear()
        return (await role.call(tool, **arguments)).text, role.asked

    return step


STEPS = {
    "tools": tools,
    "echo": echo,
    "structured": structured,
    "failure": failure,
    "progress": progress,
    "log": log,
    "resources": resources,
    "read": read,
    "prompt": prompt,
    "complete": complete,
    "cancel": cancel,
    "tools changed": tools_changed,
    "updated": updated,
    "sampling": asking("ask_model", text="Überlege"),
    "form": asking("ask_user", text="Who?"),
    "page": asking("ask_page"),
    "roots": asking("ask_roots"),
    "two questions": asking("ask_twice"),
}


def main(kind: type[Role]):
    job = Job(**json.loads(sys.argv[1]))
    asyncio.run(play(kind(job)))


async def play(role: Role):
    async with role.connected():
        say("revision", seen=role.revision())
        for name, step in role.steps.items():
            try:
                async with asyncio.timeout(PATIENCE):
                    say(name, seen=await step(role))
            except Exception as error:
                say(name, error=repr(error))


def say(step: str, **what):
    print(json.dumps({"step": step, **what}), flush=True)
