"""Make values shorter: those longer than any path, and the paths of roots in a command.

No path is that long, but many children strip, decode or tidy a value before they open it. All
functions here take time in proportion to the text's length.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from hub.guard.budget import TooManyWaysError
from hub.guard.text.expansion import SEQUENCE, VARIABLE, joins_braces
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
_WILD = re.compile(r"[*?\[\]{}\\]|[@+!]\(|\([^()]*\|")
_KEY = r"(?:-[A-Za-z]|[-\w.]*[=:@])?"
_BEFORE, _BEHIND = r"(?<=[\s'\"=@:,(<>])", r"(?=[/\s'\"]|$)"


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


def with_short_roots(
    text: str,
    reader: Reader,
    where: Literal["anywhere", "escaped", "quoted", "start"] = "anywhere",
    *,
    is_pattern: bool = False,
) -> str:
    """Return a text with `.` for each root's path in it that has special characters.

    Otherwise the text would be split inside that path. No path gets lost, since a relative path is
    read from every root. A shell splits what is not `escaped` or `quoted`. `start`: where the text
    or its `key=value` begins. `is_pattern`: what some program looks for. Then a path with braces
    stays, or, if it is not at the start, with any wildcard: they match other folders, too.
    """
    roots = _odd_roots(reader.folders) if reader.flavour is not Flavour.WINDOWS else None
    return text if roots is None else roots[where, is_pattern].sub(r"\g<before>.", text)


@lru_cache(maxsize=256)
def _odd_roots(folders: tuple[str, ...]) -> dict[tuple[str, bool], re.Pattern[str]] | None:
    """Return patterns for the folder paths that have special characters: plain, escaped, as URI.

    None if no path has any.
    """
    odd = sorted((one for one in folders if _ODD.search(one) and "$" not in one), key=len)[::-1]
    if not odd:
        return None
    escaped = [_ODD.sub(r"\\\g<0>", one) for one in odd]
    whole = escaped + [_uri(one) for one in odd]
    # A shell takes braces apart: it is not known if they are in quotes.
    plain = [one for one in odd if not joins_braces(one) and not SEQUENCE.search(one)]
    tame = [one for one in plain if not _WILD.search(one)]
    return {
        ("anywhere", False): _within(plain + whole),
        ("anywhere", True): _within(tame + whole),
        ("escaped", False): re.compile(rf"(?P<before>){_BEFORE}{_any_of(escaped)}(?=[/\s]|$)"),
        ("quoted", False): re.compile(
            rf"(?P<before>['\"]){_any_of(plain)}(?=[/'\"])|{_BEFORE}{_any_of(whole)}{_BEHIND}"
        ),
        ("start", False): re.compile(rf"^(?P<before>{_KEY}){_any_of(odd + whole)}(?=/|$)"),
        ("start", True): re.compile(rf"^(?P<before>{_KEY}){_any_of(plain + whole)}(?=/|$)"),
    }


def _within(texts: list[str]) -> re.Pattern[str]:
    # `/My Docs 2` is another folder than `/My Docs`, unless it stands in a sentence.
    one = _any_of(texts)
    return re.compile(rf"(?P<before>^(?:-[A-Za-z])?){one}(?=/|$)|{_BEFORE}{one}{_BEHIND}")


def _any_of(texts: list[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, texts)) or '(?!)'})"


def _uri(folder: str) -> str:
    return "file://" + quote(folder, errors="surrogateescape")
