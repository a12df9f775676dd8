"""Make values shorter: those longer than any path, and the paths of roots in a command.

No path is that long, but many children strip, decode or tidy a value before they open it. All
functions here take time in proportion to the text's length.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from hub.guard.budget import TooManyWaysError
from hub.guard.text.expansion import VARIABLE
from hub.guard.text.names import IGNORABLE
from hub.guard.text.readings import Reader
from hub.paths.resolve import PATH_MAX, Flavour

_ROUNDS = 8
_EDGES = "".join(map(chr, range(33))) + "\x7f\x85\xa0\u2028\u2029\u3000\"'`<>"
_BREAKS = re.compile(r"([\t\r\n])[\t\r\n]+")
_SLASHES = re.compile(r"(/)(?:\.?/)+")
_SEPARATORS = re.compile(r"([/\\])(?:\.?[/\\])+")
_LOOKALIKES = str.maketrans(
    {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)}
    | {"\u2024": ".", "\u2025": "..", "\ufe52": ".", "\ufe68": "\\"}
    | {"\u2215": "/", "\u2044": "/", "\u29f8": "/", "\u2216": "\\"}
)
_PIECES = re.compile(r"[\s\x00-\x1f\x7f,;|=\"'`<>(){}\[\]]+|:(?!//)")
_STARTS_AS_PATH = re.compile(r"[/\\~]|\.\.[/\\]|[A-Za-z]:[\\/]")
_OF_A_TEXT = re.compile(r"[\"'`\r\n()\[\]]")
_FEW_WORDS = 4
_ODD = re.compile(r"[^\w./-]", re.ASCII)


def shortened(text: str, reader: Reader) -> tuple[list[str], str]:
    """Return the paths that a child may make of `text` by cleaning it up, and the remaining text.

    The remaining text is empty if the cleaned text is short enough to be a path.

    Raises:
        PathError: the text is escaped too many times over.
    """
    found: list[str] = []
    tidy = _tidied(text, _SLASHES)
    if len(tidy) < PATH_MAX:
        return [tidy], ""
    found += _without_detours(tidy)
    tidy = _cleaned(tidy, reader)
    if len(tidy) < PATH_MAX:
        return [*found, tidy], ""
    found += _without_detours(tidy)
    return found, tidy


def is_one_path(text: str) -> bool:
    """Return whether a text has so few words that it can be a path, or a list of paths."""
    return len(text.split(None, _FEW_WORDS)) < _FEW_WORDS


def paths_in(text: str) -> list[str]:
    """Return the items of a list that start like a path, each once."""
    pieces = dict.fromkeys(_PIECES.split(text))
    return [piece for piece in pieces if _STARTS_AS_PATH.match(piece) and piece != text]


def straightened(text: str) -> str:
    """Return a path without empty names, `.` and `..`; it may still start with `..`."""
    kept: list[str] = []
    for name in text.split("/"):
        if name == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif name not in {"", "."}:
            kept.append(name)
    return ("/" if text[:1] == "/" else "") + "/".join(kept)


def _without_detours(text: str) -> list[str]:
    straight = straightened(text)
    if len(straight) >= PATH_MAX:
        return []
    # `..` may have removed most of a text with few slashes; the rest is then no path.
    is_path = is_one_path(text) or not _OF_A_TEXT.search(straight)
    return [straight] if straight and is_path else []


def _tidied(text: str, separators: re.Pattern[str]) -> str:
    text = _BREAKS.sub(r"\1", text.strip(_EDGES))
    # Two separators at the start can mean a path on another machine.
    return text[:1] + separators.sub(r"\1", text[1:])


def _cleaned(text: str, reader: Reader) -> str:
    for _ in range(_ROUNDS):
        before = text
        text = IGNORABLE.sub("", text).translate(_LOOKALIKES)
        text = VARIABLE.sub(lambda of: of[0] if reader.env.get(of[1] or of[2]) else "", text)
        decoded = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
        text = _tidied(decoded.decode("utf-8", "replace").replace("\\", "/"), _SEPARATORS)
        if text == before:
            return text
    raise TooManyWaysError


def with_short_roots(text: str, reader: Reader) -> str:
    """Return a text with `.` for each root's path in it that has special characters.

    Otherwise the text would be split inside that path. No path gets lost, since a relative path is
    read from every root.
    """
    folders = _odd_folders(reader.folders) if reader.flavour is not Flavour.WINDOWS else None
    return text if folders is None else folders.sub(".", text)


@lru_cache(maxsize=256)
def _odd_folders(folders: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern for the folder paths that have special characters: plain, escaped, as URI.

    None if no path has any.
    """
    odd = sorted((one for one in folders if _ODD.search(one) and "$" not in one), key=len)[::-1]
    if not odd:
        return None
    spelled = (form for one in odd for form in (one, _ODD.sub(r"\\\g<0>", one), _uri(one)))
    return re.compile(rf"(?<![^\s'\"=@:,(<>])(?:{'|'.join(map(re.escape, spelled))})(?=[/\s'\"]|$)")


def _uri(folder: str) -> str:
    return "file://" + quote(folder, errors="surrogateescape")
