"""List every plausible reading of one string as a path: what some child may make of the string."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from hub.guard.budget import MAX_WAYS, TooManyWaysError
from hub.guard.text.expansion import alternatives_in, with_climbs, with_variables
from hub.guard.text.names import IGNORABLE, SHORT_OPTION
from hub.guard.text.prose import is_list_of_words
from hub.guard.text.shell import without_quotes
from hub.guard.text.uris import (
    host_as_folder,
    is_local_uri,
    is_remote,
    is_server,
    local_uri_paths,
    server_values,
)
from hub.paths.resolve import Flavour, PathError

_MAX_LENGTH, _MAX_TOTAL = 4 * 4096, 16 * 4096
_MAX_MARKS = 100
_MAX_NAMES, _MAX_COLONS = 32, 8

Readings: TypeAlias = "dict[str, str]"
"""Each reading, and how it comes about, in words for `explain`."""


class Reader(Struct, frozen=True):
    """How a string is read: with a child's environment and platform, and these settings.

    `whole`: read the string only as one path, with no lists, no `key=value`, no flags. `words`:
    split at spaces always, never, or if most words look like file names. `as_shell`: as in a shell,
    an unset variable is empty, and if the string `expands`, `.?` can mean `..`; `globs`: it is a
    word that a shell looks for files by. `folders`: a text that begins with the path of one of them
    is not split inside that path. `is_path`: the string is known to be a path and is judged as a
    whole anyway, so its start is no separate path, unless it lies in a folder. `is_pattern`: the
    string may be a search pattern, so brackets and backslashes may be part of it.
    """

    env: Mapping[str, str]
    flavour: Flavour
    whole: bool = False
    words: Literal["always", "never", "names"] = "always"
    as_shell: bool = False
    expands: bool = True
    globs: bool = False
    folders: tuple[str, ...] = ()
    is_path: bool = False
    is_pattern: bool = False


# A path of these characters reads in one way only.
_PLAIN = re.compile(r"(?!-|/vsi)[\w.-]*(?:/[\w.-]+)*/?", re.ASCII)
_EMBEDDED_URI = re.compile(r"(?<![\w.+:-])file:/[^\s\"'<>)\]`,;]+", re.I)
_OVERLONG = re.compile(rb"[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")
_ESCAPE = re.compile(r"%(?:[0-9a-f]{2}|u[0-9a-f]{4})", re.I)
_JSON_ESCAPE = re.compile(r"\\u([0-9a-f]{4})", re.I)
_CODE = re.compile(r"\\(?:u([0-9a-f]{4})|x([0-9a-f]{1,2})|0?([0-7]{2,3}))", re.I)
"""A character by its number, as `printf`, `echo -e` and the strings of most languages take it."""
_BLANK = re.compile(r"\\[tnrf]")
"""In a JSON string: what separates words."""
_OCTAL = 3  # the group of `_CODE` with octal digits
_WIDE_ESCAPE = re.compile(r"%u([0-9a-f]{4})", re.I)
_PERCENT_VARIABLE = re.compile(r"%([A-Za-z_][\w()]*)%", re.ASCII)
_FLAG = re.compile(r"-[\w-]*?([/~\\]|\.\.)")

_QUOTES = "\"'`<>\u201c\u201d\u2018\u2019\u00ab\u00bb"
_OPENED = re.compile(r"[\"'`<>(){}\[\]\u201c\u201d\u2018\u2019\u00ab\u00bb]")
_OPENED_QUOTE = re.compile("[\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb]")
_LIST = re.compile(r"[,;|\n]")
_LISTS = {sign: re.compile(re.escape(sign)) for sign in (",", ";", "|", "\n", "&&")}
_COMMANDS = re.compile(r"[;|]|&&")
_COLON = re.compile(r":")
_LAST_COLON = re.compile(r":(?=[^:]*\Z)")
_ASSIGNED = re.compile(r"[=@!]|(?<=\w)\+(?=[/~.])")
_ASSIGNED_IN_PATTERN = re.compile(r"[=@!]")
_SIGNS = "@!<>+"
_CUT, _CUT_IN_PATTERN = re.compile(r"[?#]"), re.compile("#")
_OUT_OF_FOLDER = re.compile(r"(?:(?<=[^/])/|(?<![\s\S]))(?:\.\./)+")
_CLIMB = re.compile(r"(?<![^/])\.\./")
_NO_NAMES = str.maketrans("", "", '<>"?*')
"""Signs that Windows allows in no name, but those of lists: what tidies a path drops them."""
_NO_WINDOWS_QUOTES = str.maketrans("", "", "\"'`^")  # taken out by `cmd` and PowerShell
_LOOKALIKES = str.maketrans({"\u2215": "/", "\u2044": "/", "\u29f8": "/", "\u2216": "\\"})
_BREAKS = re.compile(r"[\t\r\n]")
_VIRTUAL = re.compile(r"/vsi(?!curl|s3|gs|az|oss|swift|hdfs|mem|stdin|stdout)\w+/", re.I)
"""GDAL's prefixes for reading inside the file named after them: `/vsizip/a.zip/b`."""
_AFTER_BRACKET = re.compile(r"(?<=[)\]}])[*+?]?[/\\]")
_CLASS_ESCAPE = re.compile(r"\\[A-Za-z](?![A-Za-z])")
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_SPACE = re.compile(r"\s+")


def readings(text: str, reader: Reader) -> Readings:
    """Return every reading of `text`, the literal one first unless it is a local URI.

    Raises:
        TooManyWaysError: `text` has too many readings.
        PathError: `text` is too long, or cannot be read for certain.
    """
    if _PLAIN.fullmatch(text) and ".../" not in text:
        return {text: "as given"}
    if len(text) > _MAX_LENGTH:
        raise PathError("it is longer than any path can be")
    found: Readings = {text: "as given"}
    queue, total = [text], len(text)
    for reading in queue:  # grows in the loop: each reading is read in turn
        there = {*reading}
        for how, signs, transform in _transforms(reading, found[reading], reader):
            for other in transform(reading, reader) if not there.isdisjoint(signs or there) else ():
                if other and other not in found:
                    found[other] = how
                    queue.append(other)
                    total += len(other)
        if len(found) > MAX_WAYS or total > _MAX_TOTAL:
            raise TooManyWaysError
    return {one: how for one, how in found.items() if not _is_left_out(one, how, reader)}


def _is_left_out(reading: str, how: str, reader: Reader) -> bool:
    # To Windows a name with spaces behind it is the trimmed one, which is a reading, too.
    is_same = reader.flavour is Flavour.WINDOWS and reading[-1] == " " and how != "as given"
    return is_same or is_local_uri(reading)


Transform: TypeAlias = Callable[[str, Reader], Iterable[str]]
Transforms: TypeAlias = "tuple[tuple[str, frozenset[str], Transform], ...]"
"""How readings come about; the signs of which a text has one, if any are named; and how to read."""


def _transforms(text: str, how: str, reader: Reader) -> Transforms:
    if ":" in text:
        if is_local_uri(text):
            return _URI
        if is_server(text):
            return _SERVER
        if is_remote(text):
            return _CHAIN if "::" in text else ()
    if reader.is_pattern:
        if how in _PARTS and _CLASS_ESCAPE.match(text.lstrip(_SIGNS + _QUOTES)):
            return ()
        if how == SLASHED:
            return _ONE_PATH
    return _ONE_PATH if reader.whole else _ALL


def _trimmed(text: str, reader: Reader) -> Iterable[str]:
    text = text.strip()
    # A single quote may be left over from a pair, if the text was cut out of a list or command.
    return (text, text.strip(_QUOTES))


def _joined(text: str, reader: Reader) -> Iterable[str]:
    # A URL parser removes line breaks before it looks at the scheme.
    return (_BREAKS.sub("", text),) if _BREAKS.search(text) else ()


def _decoded(text: str, reader: Reader) -> Iterable[str]:
    if not _ESCAPE.search(text):
        return ()
    text = _WIDE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    decoded = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    if _OVERLONG.search(decoded):
        raise PathError("it has an ambiguous percent-encoding")
    return (decoded.decode("utf-8", "replace"),)


def _slashed(text: str, reader: Reader) -> Iterable[str]:
    # In a path of Windows `\x64` is a name.
    code = _JSON_ESCAPE if reader.flavour is Flavour.WINDOWS else _CODE
    forms = (text.replace("\\", "/"), code.sub(_character, text))
    return (*forms, _BLANK.sub(" ", text)) if text[:1] == '"' else forms


def _cleaned(text: str, reader: Reader) -> Iterable[str]:
    """Return a text with more `..` in it than before, once a child has made it harmless.

    It drops each `../`, or all signs that no name may have: of `....//` and `.*./` is left `../`.
    """
    is_one = not reader.is_pattern and (reader.whole or reader.is_path or not reader.as_shell)
    named = text.translate(_NO_NAMES) if is_one else text
    climbs = ".../" in text or "...\\" in text
    if not (climbs or named != text) or _CONTROL.search(text):
        return
    if climbs:
        yield text.replace("../", "").replace("..\\", "")
    if len(_CLIMB.findall(named)) > len(_CLIMB.findall(text)):
        yield named


def _character(code: re.Match[str]) -> str:
    kind = code.lastindex or 0
    number = int(code[kind], 16) if kind < _OCTAL else int(code[kind], 8) & 0xFF
    return chr(number) if number or kind == 1 else code[0]


def _normalised(text: str, reader: Reader) -> Iterable[str]:
    if text.isascii():
        return ()
    visible = IGNORABLE.sub("", text)
    # Normalising sorts a letter's marks; the time grows with the square of their number.
    stacks = bytes(map(unicodedata.combining, visible)).split(b"\0")
    if max(map(len, stacks)) > _MAX_MARKS:
        raise PathError("it has too many combining marks on one letter")
    return (unicodedata.normalize("NFKC", visible).translate(_LOOKALIKES),)


def _expanded(text: str, reader: Reader) -> Iterable[str]:
    if "$" in text:
        yield from with_variables(text, reader.env, as_shell=reader.as_shell)
    if reader.flavour is Flavour.WINDOWS and "%" in text:
        yield _PERCENT_VARIABLE.sub(lambda match: _known(match[1], reader), text)
    if text[:1] == "~" and text[1:2] in {"", "/", "\\"}:
        home = reader.env.get("HOME") or reader.env.get("USERPROFILE")
        if not home:
            raise PathError("it starts with '~', and HOME is not set")
        yield home + text[1:]


def _known(name: str, reader: Reader) -> str:
    if name not in reader.env:
        raise PathError(f"the variable %{name}% is not set")
    return reader.env[name]


def _listed(text: str, reader: Reader) -> Iterable[str]:
    inner = text.strip()
    if inner[:1] == "[" and inner[-1:] == "]":
        yield inner[1:-1]
    for sign, split in _LISTS.items():
        if sign in text:
            yield from _pieces(split, text, reader)
    if _COMMANDS.search(text):
        start = _end_of_folder(text, reader)
        # The rest of the word that begins with the folder is no absolute path.
        words = (f"x{text[start:]}" if start else text).split()
        yield from (word for word in words if word[0] in "/~.-")
    if ":" in text and reader.flavour is not Flavour.WINDOWS:
        yield text.partition(":")[2]
        yield from _pieces(_COLON, text, reader)
        if text.count(":") <= _MAX_COLONS:
            yield from _pieces(_LAST_COLON, text, reader)[:1]
    yield from (match[0] for match in _EMBEDDED_URI.finditer(text))


def _archived(text: str, reader: Reader) -> Iterable[str]:
    if match := _VIRTUAL.match(text):
        inner = text[match.end() :]
        yield inner
        # Without the disk it is unknown where the archive's path ends and the path in it starts.
        yield from (inner[: slash.start()] for slash in islice(re.finditer("/", inner), _MAX_NAMES))


def _quoted(text: str, reader: Reader) -> Iterable[str]:
    if reader.is_pattern:
        # `/*` in `{a,b}/*` is no path of its own.
        text = _AFTER_BRACKET.sub("x/", text)
    yield from (match[1] or match[2] for match in _QUOTED.finditer(text))
    for opened in (_OPENED, _OPENED_QUOTE):
        if opened.search(text):
            yield from _pieces(opened, text, reader)


def _assigned(text: str, reader: Reader) -> Iterable[str]:
    assigned = _ASSIGNED_IN_PATTERN if reader.is_pattern else _ASSIGNED
    if assigned.search(text):
        yield text.partition("=")[2]
        yield from _pieces(assigned, text, reader)
    if text[:1] == "-":
        if match := _FLAG.match(text):
            yield text[match.start(1) :]
        if SHORT_OPTION.match(text):
            yield text[2:]
        yield text.partition(" ")[2]
    yield text.lstrip(_SIGNS)
    if text.startswith(("@@", "@!", "!@", "!!")):
        yield text[1:]  # a name may begin with such a sign, too


def _cut(text: str, reader: Reader) -> Iterable[str]:
    # As in a child that takes the text for a URL.
    start = _end_of_folder(text, reader)
    # In a pattern `?` is a wildcard.
    sign = (_CUT_IN_PATTERN if reader.is_pattern else _CUT).search(text, start)
    return (text[: sign.start()],) if sign is not None else ()


def _separated(text: str, reader: Reader) -> Iterable[str]:
    if _CONTROL.search(text):
        yield from _pieces(_CONTROL, text, reader)
    words = reader.words
    if " " in text and (words == "always" or (words == "names" and is_list_of_words(text))):
        yield from _pieces(_SPACE, text, reader)


def _unquoted_by_shell(text: str, reader: Reader) -> Iterable[str]:
    r"""Return the text without quotes and backslashes, as a shell reads `.''./x` and `.\./x`."""
    if not reader.as_shell:
        return ()
    if reader.flavour is Flavour.WINDOWS:
        return (text.translate(_NO_WINDOWS_QUOTES),)
    start = _end_of_folder(text, reader)
    return (text[:start] + without_quotes(text[start:]),)


def _end_of_folder(text: str, reader: Reader) -> int:
    """Return where the path of a folder ends that `text` begins with, or 0.

    It may leave the folder and enter it again: `/My Docs/../My Docs`, or `../My Docs` if that is
    the only folder.
    """
    begun = [one for one in reader.folders if text.startswith(one)]
    end = max(map(len, begun), default=0)
    entered = begun or (reader.folders if len(reader.folders) == 1 else ())
    while entered and (climb := _OUT_OF_FOLDER.match(text, end)):
        again = ("/".join(one.split("/")[-climb[0].count("..") :]) for one in entered)
        length = max((len(one) for one in again if text.startswith(one, climb.end())), default=0)
        if not length:
            break
        end = climb.end() + length
    return end


def _pieces(at: re.Pattern[str], text: str, reader: Reader) -> list[str]:
    """Split a text, but not inside the path of a folder that it begins with."""
    start = _end_of_folder(text, reader)
    pieces = at.split(text[start:])
    pieces[0] = text[:start] + pieces[0]
    if reader.is_path and not start and text[:1] == "/":
        del pieces[0]
    return [piece for piece in pieces if piece.strip("/. ") or ".." in piece]


BRACES = "one alternative of the braces"
FOUND = "as a shell reads its wildcards"
EXPANDED = "with variables and '~' expanded"
WHOLE_WORDS = frozenset({"as given", BRACES, EXPANDED})
"""What a shell looks for as a whole, if it has wildcards."""
SLASHED = "with '\\' as '/'"
ITEM, INNER = "one item of a list", "what is quoted in it"
LOCAL_URI, WITH_HOST = "as a local URI", "with a URI's host as a directory"
SIDE, WORDS = "the right-hand side", "one of several words"
_PARTS = frozenset({ITEM, INNER, SIDE, WORDS})
_ANY = frozenset[str]()
_SPACES = frozenset(" \x7f\x85\u2028\u2029") | {chr(code) for code in range(32)}
_URI: Transforms = (
    (LOCAL_URI, _ANY, lambda text, reader: local_uri_paths(text, reader.flavour)),
    (WITH_HOST, _ANY, lambda text, _: (host_as_folder(text) or "",)),
    ("trimmed and unquoted", _ANY, _trimmed),
    (ITEM, frozenset(",;|\n"), lambda text, _: _LIST.split(text)),
)
_CHAIN: Transforms = (
    # `zip://a.txt::/x.zip`: each opener reads from the file that the next one opens.
    ("one link of a chain of URLs", frozenset(":"), lambda text, _: text.split("::")),
)
_SERVER: Transforms = (
    ("a parameter of a server's URL", _ANY, lambda text, _: server_values(text)),
    *_CHAIN,
)
_ONE_PATH: Transforms = (
    ("with line breaks and tabs removed", frozenset("\t\r\n"), _joined),
    ("trimmed and unquoted", _ANY, _trimmed),
    ("percent-decoded", frozenset("%"), _decoded),
    (SLASHED, frozenset("\\"), _slashed),
    ("cleaned", frozenset('/\\<>"?*'), _cleaned),
    ("in plain characters", _ANY, _normalised),
    (EXPANDED, frozenset("$%~"), _expanded),
    ("without what a URL has behind its path", frozenset("?#"), _cut),
    (
        FOUND,
        frozenset("*?["),
        lambda text, reader: (with_climbs(text),) if reader.as_shell and reader.expands else (),
    ),
    ("as a shell reads its quotes", frozenset("'\"\\`"), _unquoted_by_shell),
    ("what an archive is read from", frozenset("vV"), _archived),
    *_CHAIN,
)
_ALL: Transforms = (
    *_ONE_PATH,
    (BRACES, frozenset("{"), lambda text, _: alternatives_in(text)),
    (ITEM, frozenset(",;|\n&:["), _listed),
    (INNER, frozenset(_QUOTES + "(){}[]"), _quoted),
    (SIDE, frozenset("-=" + _SIGNS), _assigned),
    (WORDS, _SPACES, _separated),
)
