"""The Inspector 2.x on the command line. Each question is one run of the program, and one connection."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

from script import Answer, Role, main, structured, tools

MODULES = Path(__file__).resolve().parents[2] / "node_modules"
PROGRAM = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
NODE_22 = MODULES / ".bin/node"  # which it needs; npm brings it where it has one for this machine


async def note(role: Role):
    return await role.read(role.job.uri("notes/7"))


async def greeting(role: Role):
    return await role.prompt("greet", name="Zoë", language="Deutsch")


class Inspector(Role):
    steps = {"tools": tools, "structured": structured, "note": note, "greeting": greeting}

    @asynccontextmanager
    async def connected(self):
        yield

    def revision(self):
        return None

    async def ask(self, method: str, *options: str):
        job = self.job
        if job.url:
            target = [job.url, "--transport", "http"]
        else:
            target = [job.launcher]  # it cannot tell a command's options from its own
        era = "legacy" if job.legacy else "modern"
        question = ["--method", method, *options, "--protocol-era", era, "--format", "json", "--quiet"]
        program = await asyncio.create_subprocess_exec(
            NODE_22 if NODE_22.exists() else "node",
            PROGRAM,
            "--cli",
            *target,
            *question,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
        if program.returncode:
            raise RuntimeError(f"exit code {program.returncode}: {errors.decode()[-1000:]}")
        return json.loads(output)["result"]

    async def tools(self):
        listed = await self.ask("tools/list")
        return {tool["name"]: "outputSchema" in tool for tool in listed["tools"]}

    async def call(self, tool, progress=None, **arguments):
        question = ("--tool-name", self.name(tool), "--tool-args-json", json.dumps(arguments))
        result = await self.ask("tools/call", *question)
        structured = result.get("structuredContent")
        return Answer(result["content"][0]["text"], structured, result.get("isError", False))

    async def read(self, uri):
        return (await self.ask("resources/read", "--uri", uri))["contents"][0]["text"]

    async def prompt(self, name, /, **arguments):
        options = ("--prompt-name", self.name(name), "--prompt-args", *(f"{k}={v}" for k, v in arguments.items()))
        return (await self.ask("prompts/get", *options))["messages"][0]["content"]["text"]


if __name__ == "__main__":
    main(Inspector)
