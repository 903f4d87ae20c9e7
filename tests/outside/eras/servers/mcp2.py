"""The play on PyPI `mcp` 2.x, for clients of 2026-07-28 only: mcp2.py NAME [PORT] (without a port: stdio)."""

import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    EmptyResult,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    TextContent,
)
from pydantic import BaseModel

name, *port = sys.argv[1:]
# Seconds between progress and what follows; a Node client drops progress that comes along with the answer.
PACE = 0.1
fates: dict[str, str] = {}


async def refuse_initialize(ctx, call_next):
    if ctx.method == "initialize":
        asked = {"supported": ["2026-07-28"], "requested": ctx.params.get("protocolVersion")}
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "this server speaks 2026-07-28 only", asked)
    return await call_next(ctx)


server = MCPServer(name, version="1", log_level="ERROR", middleware=[refuse_initialize])


class Sum(BaseModel):
    sum: float


@server.tool(structured_output=False)
def echo(text: str) -> str:
    return text


@server.tool()
def add(a: float, b: float) -> Sum:
    return Sum(sum=a + b)


@server.tool(structured_output=False)
def fail() -> str:
    raise ToolError("deliberate")


@server.tool(structured_output=False)
async def steps(count: int, ctx: Context) -> str:
    for step in range(1, count + 1):
        await ctx.report_progress(step, count, f"step {step}")
        await anyio.sleep(PACE)
    return "done"


@server.tool(structured_output=False)
async def note(text: str, ctx: Context) -> str:
    await ctx.info(text)
    return "noted"


@server.tool(structured_output=False)
async def wait(id: str, ctx: Context) -> str:
    fates[id] = "running"
    await ctx.report_progress(0, 1, "waiting")
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        fates[id] = "cancelled"
        raise
    return "never cancelled"


@server.tool(structured_output=False)
def fate(id: str) -> str:
    return fates.get(id, "unknown")


@server.tool(structured_output=False)
async def grow(id: str, ctx: Context) -> str:
    server.add_tool(lambda: id, f"grown_{id}", structured_output=False)
    await ctx.notify_tools_changed()
    return "grown"


@server.tool(structured_output=False)
async def touch(uri: str, ctx: Context) -> str:
    await ctx.notify_resource_updated(uri)
    return "touched"


def sampling(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def form(message: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def asked(ctx: Context, state: str, **requests) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


@server.tool(structured_output=False)
def ask_model(text: str, ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        return asked(ctx, "modèl", model=sampling(text))
    return ctx.input_responses["model"].content.text


@server.tool(structured_output=False)
def ask_user(text: str, ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        return asked(ctx, "user", user=form(text))
    answer = ctx.input_responses["user"]
    return f"{answer.action} {(answer.content or {}).get('name', 'nobody')}"


@server.tool(structured_output=False)
def ask_roots(ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        return asked(ctx, "roots", roots=ListRootsRequest())
    return ", ".join(str(root.uri) for root in ctx.input_responses["roots"].roots)


@server.tool(structured_output=False)
def ask_page(ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        params = ElicitRequestURLParams(message="Look", url="https://example.org/page")
        return asked(ctx, "page", page=ElicitRequest(params=params))
    return ctx.input_responses["page"].action


@server.tool(structured_output=False)
def ask_twice(ctx: Context) -> str | InputRequiredResult:
    """The user first, and then the model about the answer."""
    if not ctx.input_responses:
        return asked(ctx, "first", user=form("Who?"))
    if "user" in ctx.input_responses:
        who = ctx.input_responses["user"].content["name"]
        return asked(ctx, who, model=sampling(f"Hello {who}"))
    return f"{ctx.request_state}: {ctx.input_responses['model'].content.text}"


@server.prompt()
def greet(name: str, language: str) -> str:
    return f"Greet {name} in {language}"


@server.completion()
async def complete(ref, argument, context):
    words = [word for word in ("Deutsch", "dansk") if word.lower().startswith(argument.value)]
    return Completion(values=words, has_more=False)


@server.resource(f"play://{name}/readme", mime_type="text/plain")
def readme() -> str:
    return "grüße ☃"


@server.resource(f"play://{name}/bytes", mime_type="application/octet-stream")
def octets() -> bytes:
    return b"\0\xff"


@server.resource(f"play://{name}/notes/{{id}}", mime_type="text/plain")
def notes(id: str) -> str:
    return f"note {id}"


async def set_level(_ctx, _params) -> EmptyResult:
    return EmptyResult()  # never reached here: it is what declares that there are log messages


server._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
if port:
    server.run("streamable-http", port=int(port[0]))
else:
    server.run()
