"""Pieces of a JSON text as the bytes they were written in: equality here is byte for byte."""

import json

_scan = json.JSONDecoder().raw_decode


def members(text: str) -> dict[str, str]:
    """The members of a JSON object, each value as its literal text."""
    found = {}
    at = _past(text, 0, "{")
    while text[at] != "}":
        name, at = _scan(text, at)
        start = _past(text, at, ":")
        _, at = _scan(text, start)
        found[name] = text[start:at]
        at = _past(text, at, ",")
    return found


def items(text: str) -> list[str]:
    """The items of a JSON array, each as its literal text."""
    found = []
    at = _past(text, 0, "[")
    while text[at] != "]":
        start = at
        _, at = _scan(text, start)
        found.append(text[start:at])
        at = _past(text, at, ",")
    return found


def _past(text: str, at: int, mark: str) -> int:
    """Steps over blanks, `mark` where it stands, and blanks again."""
    at = _past_blanks(text, at)
    return _past_blanks(text, at + 1) if text[at] == mark else at


def _past_blanks(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
