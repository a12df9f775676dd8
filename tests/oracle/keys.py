"""The kinds of arguments that a value is given under, with and without schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from hub.core.values import Json, JsonObject

Family: TypeAlias = Literal["path", "weak", "neutral", "glob", "command", "args", "payload"]
"""What a server does with a value, as far as its key tells."""


class Key(NamedTuple):
    """Where a value is put, and what the tool's schema says of it."""

    name: str
    family: Family
    put: Callable[[str], JsonObject]
    schema: Json = None


def _under(name: str) -> Callable[[str], JsonObject]:
    return lambda value: {name: value}


def _plainly(family: Family, *names: str) -> tuple[Key, ...]:
    return tuple(Key(name, family, _under(name)) for name in names)


def _properties(**members: Json) -> JsonObject:
    return {"type": "object", "properties": dict(members)}


_TEXT: JsonObject = {"type": "string"}
_PATHS_OR_TEXT: Json = {
    "anyOf": [
        _TEXT,
        {"type": "array", "items": {"properties": {"sourcePdfPath": _TEXT}}},
    ]
}

KEYS: tuple[Key, ...] = (
    *_plainly("path", "path", "outputFile", "repo_path", "cwd", "saveTo"),
    Key("paths[]", "path", lambda value: {"paths": ["notes.txt", value]}),
    Key("edits[].file_path", "path", lambda value: {"edits": [{"file_path": value, "n": 1}]}),
    Key("path.value", "path", lambda value: {"path": {"value": value}}),
    Key("file.pathname", "path", lambda value: {"file": {"pathname": value}}),
    Key("options = JSON", "path", lambda value: {"options": json.dumps({"path": value})}),
    Key("path with a schema", "path", _under("path"), _properties(path=_TEXT)),
    Key(
        "described as a path",
        "path",
        _under("subject"),
        _properties(subject=_TEXT | {"description": "Path to the file to read"}),
    ),
    Key("format: path", "path", _under("zzz"), _properties(zzz=_TEXT | {"format": "path"})),
    *_plainly("weak", "source", "destination", "output", "image", "config", "target"),
    *_plainly("weak", "path_or_content", "file_or_text"),
    Key("sources[]", "weak", lambda value: {"sources": [value]}),
    Key("source with a schema", "weak", _under("source"), _properties(source=_TEXT)),
    Key(
        "content = JSON with paths",
        "path",
        lambda value: {"content": json.dumps([{"sourcePdfPath": value}])},
        _properties(content=_PATHS_OR_TEXT),
    ),
    *_plainly("neutral", "workbook", "item", "value", "sheet", "asset", "zzz"),
    Key("o.list[].item", "neutral", lambda value: {"o": {"list": [{"item": value}]}}),
    Key("items[]", "neutral", lambda value: {"items": ["x", value]}),
    Key("zzz with a schema", "neutral", _under("zzz"), _properties(zzz=_TEXT)),
    Key("data = JSON", "neutral", lambda value: {"data": json.dumps({"item": value})}),
    Key("a key of files", "neutral", lambda value: {"files": {value: "text"}}),
    Key("a key of zzz", "neutral", lambda value: {"zzz": {value: {"n": 1}}}),
    *_plainly("glob", "pattern", "include", "excludePaths"),
    Key("command", "command", lambda value: {"command": f"cat {value}"}),
    Key("cmd", "command", lambda value: {"cmd": f"cat -n {value}"}),
    Key("args[]", "args", lambda value: {"command": "cat", "args": [value]}),
    Key("argv[]", "args", lambda value: {"argv": ["cat", "-n", value]}),
    *_plainly("payload", "content", "text", "query"),
)
