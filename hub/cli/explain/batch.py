"""Judge rows of JSON, each with the roots, the platform and the schema that it is judged by."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from hub.guard.containment import CallContext
from hub.guard.decide import Refused, compile_tool, decide
from hub.guard.policy import Policy, ToolPolicy
from hub.paths.resolve import Entry, Flavour, LinkReader, PathError
from hub.roots.roots import EMPTY, UnsafePaths, parse_announcement
from hub.system.machine import CachedDisk, OsDisk
from hub.values import Call, Json, JsonObject

_FLAVOURS = {"linux": Flavour.POSIX, "darwin": Flavour.MACOS, "windows": Flavour.WINDOWS}
_HERE = "windows" if sys.platform == "win32" else sys.platform


class NoDisk(LinkReader):
    """A `LinkReader` for another platform, without a disk to ask: every path is a directory."""

    def entry(self, path: str) -> Entry | None:
        return Entry("directory", 0, 0)

    def target(self, path: str) -> str:
        raise PathError(f"{path} is not a link")


def read_lines(source: str, stdin: Iterable[bytes] | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, or of `stdin` (this process's own) for `-`."""
    if source == "-":
        yield from sys.stdin.buffer if stdin is None else stdin
        return
    with Path(source).open("rb") as lines:
        yield from lines


def answers(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield one JSON verdict per non-blank line, in order.

    A line that is malformed, or not UTF-8, gives a refusal.
    """
    for line in lines:
        if line.strip():
            yield json.dumps(_answer(line))


def _answer(line: bytes) -> JsonObject:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as exc:
        return _verdict(None, None, f"the row is not JSON: {exc}")
    if not isinstance(row, dict):
        return _verdict(None, None, "the row is not an object")
    return _judged(cast("JsonObject", row))


def _judged(row: JsonObject) -> JsonObject:
    number, arguments = row.get("id"), row.get("arguments")
    context = _context(row)
    if context is None or not isinstance(arguments, dict):
        return _verdict(number, None, "the row's arguments, roots, env or platform are not usable")
    policy = ToolPolicy(Policy(unsafe=_unsafe(context)))
    guard = compile_tool(row.get("schema"), read_only=False, policy=policy)
    call = Call("tools/call", "", arguments, {"arguments": arguments})
    verdict = decide(call, guard, context)
    if isinstance(verdict, Refused):
        return _verdict(number, verdict.pointer, verdict.reason)
    return {"id": number, "verdict": "allow", "pointer": None, "reason": None}


def _verdict(number: Json, pointer: str | None, reason: str) -> JsonObject:
    return {"id": number, "verdict": "deny", "pointer": pointer, "reason": reason}


def _context(row: JsonObject) -> CallContext | None:
    platform, cwd = row.get("platform", _HERE), row.get("cwd")
    env, uris = row.get("env", {}), row.get("roots", [])
    flavour = _FLAVOURS.get(platform) if isinstance(platform, str) else None
    if flavour is None or not isinstance(env, dict) or not isinstance(uris, list):
        return None
    links = CachedDisk(OsDisk()) if platform == _HERE else NoDisk()
    roots: list[Json] = [{"uri": uri} for uri in uris]
    announced = parse_announcement({"roots": roots}, links=links, flavour=flavour, unsafe=None)
    return CallContext(
        roots=announced.roots if announced is not None else EMPTY,
        cwd=cwd if isinstance(cwd, str) else None,
        env={key: value for key, value in env.items() if isinstance(value, str)},
        links=links,
        flavour=flavour,
    )


def _unsafe(context: CallContext) -> UnsafePaths:
    home = context.env.get("HOME") or context.env.get("USERPROFILE")
    try:
        return UnsafePaths(home, context.flavour)
    except PathError:
        return UnsafePaths(None, context.flavour)
