"""Every plausible reading of one string as a path: what some child might make of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import unquote, unquote_to_bytes

from msgspec import Struct

from hub.core.paths import Flavour, PathError
from hub.core.uris import UriError, path_from_uri

MAX_READINGS = 256
_MAX_LENGTH = 4 * 4096
_MAX_TOTAL = 16 * 4096
_MAX_MARKS = 100
_MAX_CODED = 8
_TOO_MANY_WAYS = "it can be read in too many ways"

Readings: TypeAlias = "dict[str, str]"
"""Each reading, and how it comes about."""


class Reader(Struct, frozen=True):
    """Whose eyes a string is read with: a child's environment and platform.

    `whole` reads the string only as one path: no lists, no `key=value`, no flags.
    """

    env: Mapping[str, str]
    flavour: Flavour
    whole: bool = False


# A path of these characters reads in one way only.
_PLAIN = re.compile(r"(?!-)[\w.-]*(?:/[\w.-]+)*/?", re.ASCII)
_LOCAL_URI = re.compile(r"\s*(?:[a-z0-9.-]+[:+])*?(file:.*)", re.I | re.S)
_DATABASE_URI = re.compile(
    r"(?:jdbc:)?(?:sqlite3?|duckdb|h2|hsqldb|derby)(?:\+\w+)?:(?:///)?(.*)", re.I | re.S
)
_OTHER_LOCAL_URI = re.compile(
    r"(?:https?\+)?(?:unix|npipe|ipc|netdoc|local-?(?:file)?):(?://)?(.*)", re.I | re.S
)
_REMOTE_URI = re.compile(
    r"(?:[a-z][a-z0-9+.-]+://|https\?://|(?:data|mailto|urn|about|blob|tel):)", re.I
)
_DOTS = re.compile(r"\.\.|%(?:25)*2e", re.I)
_EMBEDDED_URI = re.compile(r"(?<![\w.+:-])file:/[^\s\"'<>)\]`,;]+", re.I)
_OVERLONG = re.compile(rb"[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")
_ESCAPE = re.compile(r"%(?:[0-9a-f]{2}|u[0-9a-f]{4})", re.I)
_WIDE_ESCAPE = re.compile(r"%u([0-9a-f]{4})", re.I)
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_PERCENT_VARIABLE = re.compile(r"%([A-Za-z_][\w()]*)%", re.ASCII)
_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")
_FLAG = re.compile(r"-[\w-]*?([/~\\]|\.\.)")
_HIDDEN_PATH = re.compile(r"(?<=\s)(?:[/~]|\.\.[/\\]|file:)\S*")
_QUOTES = {'"': '"', "'": "'", "`": "`", "<": ">", "\u201c": "\u201d", "\u2018": "\u2019"}
_LOOKALIKES = str.maketrans({"\u2215": "/", "\u2044": "/", "\u29f8": "/", "\u2216": "\\"})
_BREAKS = re.compile(r"[\t\r\n]")
# What is shown as nothing, and dropped by whoever cleans up text.
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def readings(text: str, reader: Reader) -> Readings:
    """Return every reading of `text`, the literal one first unless it is a local URI.

    Raises:
        PathError: there are too many, or a part of it cannot be read for certain.
    """
    if _PLAIN.fullmatch(text):
        return {text: "as given"}
    if len(text) > _MAX_LENGTH:
        raise PathError("it is longer than any path can be")
    found: Readings = {text: "as given"}
    queue = [text]
    for reading in queue:  # which grows: each reading is read in turn
        for how, transform in _transforms(reading, reader):
            for other in transform(reading, reader):
                if other and other not in found:
                    found[other] = how
                    queue.append(other)
        if len(found) > MAX_READINGS or sum(map(len, found)) > _MAX_TOTAL:
            raise PathError(_TOO_MANY_WAYS)
    return {reading: how for reading, how in found.items() if not is_local_uri(reading)}


def is_local_uri(text: str) -> bool:
    """Return whether `text` is a URI that opens something on the child's own machine."""
    return any(
        uri.match(text) for uri in (_LOCAL_URI, _DATABASE_URI, _OTHER_LOCAL_URI)
    ) and not is_remote(text)


def is_remote(text: str) -> bool:
    """Return whether `text` is a URI that leads to another machine, or nowhere."""
    if not _REMOTE_URI.match(text):
        return False
    return not any(uri.match(text) for uri in (_LOCAL_URI, _DATABASE_URI, _OTHER_LOCAL_URI))


def climbing(uri: str) -> str | None:
    """Return the path that a remote URI is to a child that knows no URIs, if its `..` lead out.

    `http://../../x` is one directory above the one that a relative path starts in.

    Raises:
        PathError: nobody knows how often a child decodes it.
    """
    if not _DOTS.search(uri):
        return None
    path = _unquoted(uri).replace("\\", "/")
    depth = 0
    for name in path.split("/"):
        if name == "..":
            depth -= 1
        elif name not in {"", "."}:
            depth += 1
        if depth < 0:
            return path
    return None


def _unquoted(uri: str) -> str:
    for _ in range(_MAX_CODED):
        plain = unquote(uri)
        if plain == uri:
            return plain
        uri = plain
    raise PathError(_TOO_MANY_WAYS)


Transform: TypeAlias = Callable[[str, Reader], Iterable[str]]


def _transforms(text: str, reader: Reader) -> tuple[tuple[str, Transform], ...]:
    if is_local_uri(text):
        return _URI
    if is_remote(text):
        return ()
    return _ONE_PATH if reader.whole else _ALL


def _uri_paths(text: str, reader: Reader) -> Iterable[str]:
    if match := _LOCAL_URI.match(text):
        return _file_uri_paths(match[1].strip(), reader)
    if match := _DATABASE_URI.match(text):
        return (match[1].partition("?")[0],)
    match = _OTHER_LOCAL_URI.match(text)
    return (match[1],) if match else ()


def _file_uri_paths(uri: str, reader: Reader) -> Iterable[str]:
    before = re.split(r"[?#]", uri, maxsplit=1)[0]
    whole = uri.replace("?", "%3F").replace("#", "%23")
    try:
        return [path_from_uri(spelled, reader.flavour) for spelled in (before, whole)]
    except UriError as exc:
        raise PathError(str(exc)) from exc


def _trimmed(text: str, reader: Reader) -> Iterable[str]:
    text = text.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1]
    return (text,)


def _joined(text: str, reader: Reader) -> Iterable[str]:
    # A URL parser does so before it looks at the scheme.
    return (_BREAKS.sub("", text),) if _BREAKS.search(text) else ()


def _decoded(text: str, reader: Reader) -> Iterable[str]:
    if not _ESCAPE.search(text):
        return ()
    text = _WIDE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    decoded = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    if _OVERLONG.search(decoded):
        raise PathError("it has a percent-encoding that is read in more than one way")
    return (decoded.decode("utf-8", "replace"),)


def _slashed(text: str, reader: Reader) -> Iterable[str]:
    return (text.replace("\\", "/"),) if "\\" in text else ()


def _normalised(text: str, reader: Reader) -> Iterable[str]:
    if text.isascii():
        return ()
    visible = IGNORABLE.sub("", text)
    # Normalising sorts the marks of a letter, in time that grows with the square of their number.
    stacks = bytes(map(unicodedata.combining, visible)).split(b"\0")
    if max(map(len, stacks)) > _MAX_MARKS:
        raise PathError("it has more marks on one letter than any name")
    return (unicodedata.normalize("NFKC", visible).translate(_LOOKALIKES),)


def _expanded(text: str, reader: Reader) -> Iterable[str]:
    if "$" in text:
        yield VARIABLE.sub(lambda match: reader.env.get(match[1] or match[2], ""), text)
    if reader.flavour is Flavour.WINDOWS and "%" in text:
        yield _PERCENT_VARIABLE.sub(lambda match: _known(match[1], reader), text)
    if text[:1] == "~" and text[1:2] in {"", "/", "\\"}:
        home = reader.env.get("HOME") or reader.env.get("USERPROFILE")
        if not home:
            raise PathError("nobody knows where '~' leads")
        yield home + text[1:]


def _known(name: str, reader: Reader) -> str:
    if name not in reader.env:
        raise PathError(f"nobody knows where '%{name}%' leads")
    return reader.env[name]


def _braces(text: str, reader: Reader) -> Iterable[str]:
    match = _BRACES.search(text)
    if match is None:
        return ()
    return [text[: match.start()] + way + text[match.end() :] for way in match[1].split(",")]


def _listed(text: str, reader: Reader) -> Iterable[str]:
    inner = text.strip()
    if inner[:1] == "[" and inner[-1:] == "]":
        yield inner[1:-1]
    if "," in text or ";" in text:
        yield from re.split(r"[,;]", text)
    if reader.flavour is not Flavour.WINDOWS and re.search(r":(?:[/~]|\.\.)", text):
        yield from text.split(":")
    yield from (match[0] for match in _EMBEDDED_URI.finditer(text))


def _quoted(text: str, reader: Reader) -> Iterable[str]:
    return (match[1] or match[2] for match in _QUOTED.finditer(text))


def _assigned(text: str, reader: Reader) -> Iterable[str]:
    if "=" in text:
        yield text.partition("=")[2]
    if text[:1] == "-" and (match := _FLAG.match(text)):
        yield text[match.start(1) :]
    if text[:1] in {"@", "!", "<", ">", "+"}:
        yield text[1:]


def _separated(text: str, reader: Reader) -> Iterable[str]:
    if _CONTROL.search(text):
        return _CONTROL.split(text)
    return (match[0] for match in _HIDDEN_PATH.finditer(text))


_URI: tuple[tuple[str, Transform], ...] = (("as a local URI", _uri_paths),)
_ONE_PATH: tuple[tuple[str, Transform], ...] = (
    ("with line breaks and tabs removed", _joined),
    ("trimmed and unquoted", _trimmed),
    ("percent-decoded", _decoded),
    ("with '\\' as '/'", _slashed),
    ("in plain characters", _normalised),
    ("with variables and '~' expanded", _expanded),
)
_ALL: tuple[tuple[str, Transform], ...] = (
    *_ONE_PATH,
    ("one alternative of the braces", _braces),
    ("one item of a list", _listed),
    ("what is quoted in it", _quoted),
    ("the right-hand side", _assigned),
    ("one of several words", _separated),
)
