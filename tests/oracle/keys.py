"""The kinds of arguments that a value is given under, with and without schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from hub.values import Json, JsonObject

ProcessTree: TypeAlias = Literal[
    "path", "weak", "neutral", "file key", "key", "glob", "command", "args", "payload"
]
"""What a server does with a value, as far as its key tells.

A `file key` is the key of an object under a word for files, a `key` that of any object.
"""
VALUE = "{value}"
"""Stands for the value in the arguments of a key."""


def strings_in(value: Json) -> Iterator[str]:
    """Yield every text in JSON, and the keys of its objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for member in value:
            yield from strings_in(member)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from strings_in(member)


class ArgumentKey(NamedTuple):
    """Where a value is put, and what the tool's schema says of it.

    With `inside` the arguments are JSON in a string, under that name.
    """

    family: ProcessTree
    arguments: JsonObject
    schema: Json = None
    inside: str | None = None

    def put(self, value: str) -> JsonObject:
        """Return the arguments of a call with this value."""
        filled = _filled_object(self.arguments, value)
        return filled if self.inside is None else {self.inside: json.dumps(filled)}


def _filled(template: Json, value: str) -> Json:
    if isinstance(template, str):
        return _filled_text(template, value)
    if isinstance(template, list):
        return [_filled(member, value) for member in template]
    if isinstance(template, dict):
        return {
            _filled_text(name, value): _filled(member, value) for name, member in template.items()
        }
    return template


def _filled_object(template: JsonObject, value: str) -> JsonObject:
    return {_filled_text(name, value): _filled(member, value) for name, member in template.items()}


def _filled_text(template: str, value: str) -> str:
    return template.replace(VALUE, value)


def _plainly(family: ProcessTree, *names: str) -> tuple[ArgumentKey, ...]:
    return tuple(ArgumentKey(family, {name: VALUE}) for name in names)


def _declared(name: str, **says: Json) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": "string", **says}}}


_TEXT_OR_PARTS: JsonObject = {
    "properties": {
        "content": {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"properties": {"sourcePdfPath": {"type": "string"}}}},
            ]
        }
    }
}

KEYS: tuple[ArgumentKey, ...] = (
    *_plainly("path", "path", "outputFile", "repo_path", "cwd", "saveTo"),
    ArgumentKey("path", {"paths": ["notes.txt", VALUE]}),
    ArgumentKey("path", {"edits": [{"file_path": VALUE, "line": 1}]}),
    ArgumentKey("path", {"path": {"value": VALUE}}),
    ArgumentKey("path", {"file": {"pathname": VALUE}}),
    ArgumentKey("path", {"path": VALUE}, inside="options"),
    ArgumentKey("path", {"path": VALUE}, schema=_declared("path")),
    ArgumentKey(
        "path", {"zzz": VALUE}, schema=_declared("zzz", description="Path to the file to read")
    ),
    ArgumentKey("path", {"zzz": VALUE}, schema=_declared("zzz", format="path")),
    ArgumentKey("path", {"sourcePdfPath": VALUE}, schema=_TEXT_OR_PARTS, inside="content"),
    *_plainly("weak", "source", "destination", "output", "image", "config", "target", "asset"),
    *_plainly("weak", "path_or_content", "file_or_text", "document"),
    ArgumentKey("weak", {"sources": [VALUE]}),
    ArgumentKey("weak", {"source": VALUE}, schema=_declared("source")),
    *_plainly("neutral", "workbook", "item", "value", "sheet", "zzz", "input", "uri", "script"),
    ArgumentKey("neutral", {"o": {"list": [{"item": VALUE}]}}),
    ArgumentKey("neutral", {"items": ["x", VALUE]}),
    ArgumentKey("neutral", {"zzz": VALUE}, schema=_declared("zzz")),
    ArgumentKey("neutral", {"item": VALUE}, inside="data"),
    ArgumentKey("file key", {"files": {VALUE: "text"}}),
    ArgumentKey("key", {"zzz": {VALUE: {"n": 1}}}),
    *_plainly("glob", "pattern", "include", "excludePaths"),
    ArgumentKey("command", {"command": f"cat {VALUE}"}),
    ArgumentKey("command", {"cmd": f"cat -n {VALUE}"}),
    ArgumentKey("args", {"command": "cat", "args": [VALUE]}),
    ArgumentKey("args", {"argv": ["cat", "-n", VALUE]}),
    *_plainly("payload", "content", "text", "query"),
)
