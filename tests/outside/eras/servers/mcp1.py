"""The play on PyPI `mcp` 1.x, which knows the revisions up to 2025-11-25: mcp1.py NAME [PORT] (without a port: stdio)."""

import sys
from weakref import WeakSet

import anyio
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import NotificationOptions
from pydantic import BaseModel

name, *port = sys.argv[1:]
server = FastMCP(name, log_level="ERROR", port=int(port[0]) if port else 0)
low = server._mcp_server
# Seconds between progress and what follows; a Node client drops progress that comes along with the answer.
PACE = 0.1
fates: dict[str, str] = {}
sessions: WeakSet = WeakSet()
subscribed: dict[str, WeakSet] = {}


class Sum(BaseModel):
    sum: float


class Who(BaseModel):
    name: str


@server.tool(structured_output=False)
def echo(text: str) -> str:
    return text


@server.tool()
def add(a: float, b: float) -> Sum:
    return Sum(sum=a + b)


@server.tool(structured_output=False)
def fail() -> str:
    raise ValueError("deliberate")


@server.tool(structured_output=False)
async def steps(count: int, ctx: Context) -> str:
    for step in range(1, count + 1):
        await progress(ctx, step, count, f"step {step}")
        await anyio.sleep(PACE)
    return "done"


@server.tool(structured_output=False)
async def note(text: str, ctx: Context) -> str:
    await ctx.info(text)
    return "noted"


@server.tool(structured_output=False)
async def wait(id: str, ctx: Context) -> str:
    fates[id] = "running"
    await progress(ctx, 0, 1, "waiting")
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        fates[id] = "cancelled"
        raise
    return "never cancelled"


async def progress(ctx: Context, done: float, total: float, message: str):
    """As `ctx.report_progress`, but over HTTP on the call's own stream also where a client opened no other."""
    meta = ctx.request_context.meta
    if meta and meta.progressToken is not None:
        await ctx.session.send_progress_notification(
            meta.progressToken, done, total, message, related_request_id=ctx.request_id
        )


@server.tool(structured_output=False)
def fate(id: str) -> str:
    return fates.get(id, "unknown")


@server.tool(structured_output=False)
async def grow(id: str) -> str:
    server.add_tool(lambda: id, f"grown_{id}", structured_output=False)
    for session in list(sessions):
        await session.send_tool_list_changed()
    return "grown"


@server.tool(structured_output=False)
async def touch(uri: str) -> str:
    for session in list(subscribed.get(uri, ())):
        await session.send_resource_updated(uri)
    return "touched"


@server.tool(structured_output=False)
async def ask_model(text: str, ctx: Context) -> str:
    return await sampled(ctx, text)


@server.tool(structured_output=False)
async def ask_user(text: str, ctx: Context) -> str:
    answer = await ctx.elicit(text, Who)
    return f"{answer.action} {answer.data.name if answer.action == 'accept' else 'nobody'}"


@server.tool(structured_output=False)
async def ask_roots(ctx: Context) -> str:
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool(structured_output=False)
async def ask_page(ctx: Context) -> str:
    return (await ctx.elicit_url("Look", "https://example.org/page", "elicitation-1")).action


@server.tool(structured_output=False)
async def ask_twice(ctx: Context) -> str:
    """The user first, and then the model about the answer."""
    who = (await ctx.elicit("Who?", Who)).data.name
    return f"{who}: {await sampled(ctx, f'Hello {who}')}"


async def sampled(ctx: Context, text: str) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    asked = ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return (await asked).content.text


@server.prompt()
def greet(name: str, language: str) -> str:
    return f"Greet {name} in {language}"


@server.completion()
async def complete(ref, argument, context):
    words = [word for word in ("Deutsch", "dansk") if word.lower().startswith(argument.value)]
    return types.Completion(values=words, hasMore=False)


@server.resource(f"play://{name}/readme", mime_type="text/plain")
def readme() -> str:
    return "grüße ☃"


@server.resource(f"play://{name}/bytes", mime_type="application/octet-stream")
def octets() -> bytes:
    return b"\0\xff"


@server.resource(f"play://{name}/notes/{{id}}", mime_type="text/plain")
def notes(id: str) -> str:
    return f"note {id}"


# What this SDK offers on its lower level only: log levels, subscriptions, and to declare these.
@low.set_logging_level()
async def set_level(_level):
    pass


@low.subscribe_resource()
async def subscribe(uri):
    subscribed.setdefault(str(uri), WeakSet()).add(low.request_context.session)


@low.unsubscribe_resource()
async def unsubscribe(uri):
    subscribed.get(str(uri), WeakSet()).discard(low.request_context.session)


list_tools = low.request_handlers[types.ListToolsRequest]


async def list_and_remember(request):
    sessions.add(low.request_context.session)
    return await list_tools(request)


def capabilities(*_, declared=low.get_capabilities):
    found = declared(NotificationOptions(tools_changed=True), {})
    found.resources.subscribe = True
    return found


low.request_handlers[types.ListToolsRequest] = list_and_remember
low.get_capabilities = capabilities
server.run("streamable-http" if port else "stdio")
