"""What is asked of each server: the same questions go to it directly and through every door."""

from dataclasses import dataclass

from .stage import EVERYTHING, Stage

UNICODE = 'grüße ☃ 😀 \u2028 "quoted" \\ \t end'
TEXT_RESOURCE = "demo://resource/dynamic/text/1"
DOCUMENT = "demo://resource/static/document/features.md"


@dataclass(frozen=True)
class Call:
    """A tool call. `clocked`: the answer tells the time, so two calls may differ by a tick."""

    tool: str
    arguments: dict
    clocked: bool = False


def calls(stage: Stage, server: str) -> list[Call]:
    """In order: later calls see what earlier ones wrote."""
    if server in EVERYTHING:
        return _EVERYTHING
    return {
        "files": _files(stage),
        "memory": _MEMORY,
        "time": _TIME,
        "git": _git(stage),
    }[server]


def one_call(stage: Stage, server: str) -> Call:
    """A single call that succeeds and changes nothing, for clients that start anew for each."""
    wanted = {"files": "read_media_file", "memory": "read_graph", "time": "convert_time", "git": "git_log"}
    tool = wanted.get(server, "get-structured-content")
    return next(call for call in calls(stage, server) if call.tool == tool)


_EVERYTHING = [
    Call("echo", {"message": UNICODE}),
    Call("get-sum", {"a": 2, "b": 3.5}),
    Call("get-sum", {"a": 9007199254740993, "b": 1e300}),
    Call("get-sum", {"a": "no number"}),  # answered with isError
    Call("get-structured-content", {"location": "Chicago"}),
    Call("get-tiny-image", {}),
    Call("get-annotated-message", {"messageType": "success", "includeImage": True}),
    Call("get-resource-links", {"count": 5}),
    Call("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, clocked=True),
    Call("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}, clocked=True),
]

_TIME = [
    Call(
        "convert_time",
        {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"},
        clocked=True,  # it tells today's date
    ),
    Call("get_current_time", {"timezone": "Europe/Berlin"}, clocked=True),
    Call("get_current_time", {"timezone": "No/Where"}),
]

_MEMORY = [
    Call("read_graph", {}),
    Call(
        "create_entities",
        {"entities": [{"name": UNICODE, "entityType": "thing", "observations": ["1", "é"]}]},
    ),
    Call("create_relations", {"relations": [{"from": "Zoë", "to": UNICODE, "relationType": "has"}]}),
    Call("read_graph", {}),
    Call("search_nodes", {"query": "☃"}),
    Call("delete_entities", {"entityNames": [UNICODE]}),
    Call("read_graph", {}),
]


def _files(stage: Stage) -> list[Call]:
    files = stage.folder / "files"
    written, notes = str(files / "written.txt"), str(files / "notes.md")
    return [
        Call("write_file", {"path": written, "content": UNICODE + "\r\nsecond line\n"}),
        Call("read_text_file", {"path": written}),
        Call(
            "edit_file",
            {"path": written, "edits": [{"oldText": "second", "newText": "zweite Ü"}]},
        ),
        Call("read_multiple_files", {"paths": [written, notes]}),
        Call("read_media_file", {"path": notes}),
        Call("list_directory", {"path": str(files)}),
        Call("directory_tree", {"path": str(files)}),
        Call("list_allowed_directories", {}),
        Call("read_text_file", {"path": str(stage.folder / "memory.jsonl")}),  # not allowed
    ]


def _git(stage: Stage) -> list[Call]:
    repository = {"repo_path": str(stage.folder / "repository")}
    return [
        Call("git_status", repository),
        Call("git_log", repository | {"max_count": 2}),
        Call("git_show", repository | {"revision": "HEAD"}),
        Call("git_diff_unstaged", repository),
        Call("git_show", repository | {"revision": "nowhere"}),
    ]
