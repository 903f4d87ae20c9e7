"""What clients of 2026-07-28 cannot have from a server that opens sessions, whoever translates.

A check is let off only where the server's revision lacks what the check asks for, and
only if the answer is what the translation owes instead: any other answer fails. What
passes after all must leave the table.
"""

from dataclasses import dataclass
from typing import Callable

INTERNAL_ERROR = -32603

# Clients of /mcp share an upstream session; on the other path each kind of client has its own.
EVERYWHERE, SHARED_ONLY = ("/servers", "/mcp"), ("/mcp",)


@dataclass(frozen=True)
class Lack:
    check: str
    why: str
    instead: Callable[[dict], bool]
    places: tuple[str, ...] = EVERYWHERE


def asks(*methods):
    """The call is waiting, and its result asks for this, in this order."""

    def is_asked(check):
        result = check.get("details", {}).get("result") or {}
        asked = [request.get("method") for request in result.get("inputRequests", {}).values()]
        return result.get("resultType") == "input_required" and asked == list(methods) and bool(result.get("requestState"))

    return is_asked


def says(words):
    return lambda check: words in check.get("errorMessage", "")


def fails_by_itself(check):
    """The server's own error: its words pass, a code that has got a meaning since does not."""
    error = check.get("details", {}).get("response", {}).get("error", {})
    reason = error.get("message", "")
    own = "sampling/createMessage is not supported by this client", "Missing required client capability"
    return error.get("code") == INTERNAL_ERROR and reason.endswith(own)


NAMELESS = "a request of the server bears an id, no key that a client could know beforehand"
NO_CODE = "a session's revisions have no error for a capability that the client did not declare"

LACKING = [
    Lack("sep-2322-elicitation-incomplete", NAMELESS, asks("elicitation/create")),
    Lack("sep-2322-ignore-unexpected-params", NAMELESS, asks("elicitation/create")),
    Lack(
        "sep-2322-multiple-inputs-incomplete",
        "the server makes its requests one after the other, so each takes a round",
        asks("roots/list"),
    ),
    Lack(
        "sep-2322-respect-client-capabilities",
        "what a session's client can be asked is said once, by all who share it: the server asks, and is refused",
        says("roots/list is not supported by this client"),
        SHARED_ONLY,
    ),
    Lack("sep-2575-server-rejects-undeclared-capability", NO_CODE, fails_by_itself),
    Lack("sep-2575-missing-capability-http-400", NO_CODE, says("Not testable")),
]


def lack(place, check):
    """Why this broken check cannot pass here, if it cannot and the answer is right."""
    named = [known for known in LACKING if known.check == check["id"] and place in known.places]
    return next((known.why for known in named if known.instead(check)), None)


def needless(place, passed):
    """The entries whose checks, of these ids, passed after all."""
    return [known.check for known in LACKING if place in known.places and known.check in passed]
