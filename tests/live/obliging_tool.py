"""An MCP server whose one tool does whatever its arguments can be read to ask for.

It opens each string of its arguments as servers do that mean well: as it stands, trimmed, decoded,
expanded, matched, taken apart. Nothing is held to any roots. It says which files and directories it
got hold of, by the kernel's own word for what it had opened. What is not there it creates, below
`bound` only. To its caller `top` is the top of the disk.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

MOST = 600
_SCHEME = re.compile(r"<?(?:[a-z][a-z0-9+-]*:)+(?://(?:localhost(?=/))?)?", re.IGNORECASE)
_OPTION = re.compile(r"-{1,2}[\w-]*?[=:]|-[A-Za-z]|-+|[\w.-]+[=:]|@|\d?>{1,2}")
_LIST = re.compile("[\n,;:|<>()\"'\\[\\]{}=@+!?&\u201c\u201d\u00ab\u00bb]|\\s+")
_BRACES = re.compile(r"(.*?)\{([^{}]*)\}(.*)", re.DOTALL)
_IGNORED = re.compile("[\u034f\u180e\u200b-\u200f\u2060\ufeff\u00ad]")
_PATH = re.compile("[/\\\\~\uff0f]|\\.\\.|%2", re.IGNORECASE)
_LOOKALIKES = str.maketrans("\u2215\u2044", "//")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_WILD_DOTS = re.compile(r"(?:^|(?<=/))\.(?:\?|\[\.\])(?=/|$)")
_SHORTENED = re.compile(r"\$\{HOME%/\*\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def strings(value: Any) -> Iterator[str]:
    """Yield every text in JSON: keys that look like paths, and what is in JSON in strings, too."""
    if isinstance(value, str):
        yield value
        yield from strings(inner_json(value))
    elif isinstance(value, dict):
        yield from filter(_PATH.search, cast("dict[str, Any]", value))
    elif isinstance(value, list):
        yield from as_bytes(cast("list[Any]", value))
    for member in members(value):
        yield from strings(member)


def members(value: Any) -> list[Any]:
    """Return what is in an object or array."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def inner_json(text: str) -> Any:
    """Return the object or array that a text spells; None if it spells none."""
    try:
        return json.loads(text) if text.lstrip()[:1] in {"[", "{"} else None
    except ValueError:
        return None


def as_bytes(value: list[Any]) -> Iterator[str]:
    """Yield the text that a list of bytes is."""
    if value and all(isinstance(one, int) and 0 < one < 256 for one in value):
        yield bytes(value).decode("utf-8", "replace")


def numbers(value: Any) -> Iterator[int]:
    """Yield what would be file descriptors."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    for member in members(value):
        yield from numbers(member)


def steps(text: str) -> Iterator[str]:
    """Yield what one step of reading on can make of a text."""
    yield text.strip().strip("\"'`<>()")
    yield unquote(text)
    yield re.sub(r"%u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text, flags=re.IGNORECASE)
    yield re.sub("%c0%af|%e0%80%af", "/", text, flags=re.IGNORECASE)
    yield re.sub("%c0%ae|%e0%80%ae", ".", text, flags=re.IGNORECASE)
    yield re.sub(r"\$\w+", "", text)
    yield text.replace("~+", ".")
    yield _SHORTENED.sub(os.path.dirname(os.environ["HOME"]), text)  # noqa: PTH120
    yield text.replace("$IFS", " ")
    yield _WILD_DOTS.sub("..", text)
    yield _COLOUR.sub("", text)
    yield text.translate(_LOOKALIKES)
    yield text.replace("../", "")
    yield text.replace("\\", "/")
    yield unicodedata.normalize("NFKC", text)
    yield _IGNORED.sub("", text)
    yield text.partition("\x00")[0]
    yield _CONTROL.sub("", text)
    yield from (os.path.expanduser(text), os.path.expandvars(text))  # noqa: PTH111 - as they do
    yield os.path.normpath(text) if text else ""
    yield os.path.realpath(text) if "/../" in text and "\x00" not in text else ""
    for start in (_SCHEME, _OPTION):
        found = start.match(text)
        if found is not None:
            yield text[found.end() :]
    yield from text.split("?")[:1]
    yield from text.split("#")[:1]
    braces = _BRACES.fullmatch(text)
    if braces is not None:
        yield from (f"{braces[1]}{one}{braces[3]}" for one in braces[2].split(","))
    yield from _LIST.split(text)


def readings(text: str) -> list[str]:
    """Return all that a text can be read as, the plainest first."""
    found = dict.fromkeys([text])
    pending = [text]
    for one in pending:
        for step in steps(one):
            if step not in found and len(found) < MOST:
                found[step] = None
                pending.append(step)
    return list(found)


def placed(path: str, top: str) -> str:
    """Return where `path` is if `top` is the top of the disk."""
    inner = ("/proc", "/dev", "/sys", top)
    path = re.sub("^/+", "/", path)
    return path if not path.startswith("/") or path.startswith(inner) else f"{top}{path}"


def opened(path: str, flags: int) -> str | None:
    """Return what the kernel calls the thing that `path` opened; None if it did not."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except (OSError, ValueError):
        return None
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - as the kernel says it
    finally:
        os.close(descriptor)


def created(path: str, bound: str) -> str | None:
    """Create a file, with the directories above it, if it comes to lie below `bound`."""
    try:
        where = os.path.realpath(path)
        if not where.startswith(f"{bound}/") or len(path) > 4000:
            return None
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        return None
    return opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def act(arguments: Any, top: str, cwd: str, bound: str) -> list[str]:
    """Open all that can be opened, then create what is not there; returns what that was."""
    os.environ["HOME"] = f"{top}/home"
    os.chdir(cwd)
    paths = [
        placed(path, top)
        for text in strings(arguments)
        for path in readings(text)
        if path and "\x00" not in path
    ]
    magic = [path for path in paths if glob.has_magic(path)]
    matched = [found for path in magic for found in glob.glob(path, recursive=True)[:50]]  # noqa: PTH207 - as they do
    got = [opened(path, os.O_RDONLY) for path in (*paths, *matched)]
    got += [created(path, bound) for path in paths if not glob.has_magic(path)]
    got += [opened(f"/proc/self/fd/{number}", os.O_RDONLY) for number in numbers(arguments)]
    return list(dict.fromkeys(one for one in got if one is not None))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "obliging", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
    if method != "tools/call":
        return {}
    where = params["_meta"]
    got = act(params["arguments"], where["top"], where["cwd"], where["bound"])
    return {"content": [], "structuredContent": {"got": got}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params") or {})
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
