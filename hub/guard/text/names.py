"""Find the file names in a text: in one without path signs, and in a patch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hub.guard.budget import TooManyWaysError

_ITEMS = re.compile(r"[,;|\x00-\x1f\"'`<>(){}\[\]]+")
_ENCLOSED = re.compile(r"[\x00-\x1f\"'`<>(){}\[\]\u201c\u201d\u2018\u2019\u00ab\u00bb]+")
_SIDES = re.compile(r"([=@:!+&?#]+)\s*")
_SPACES = re.compile(r"\s+")
# Invisible characters, which a child that cleans up text drops.
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
SHORT_OPTION = re.compile(r"-[A-Za-z].")
_SIGNS = "=@:!+&?#"
_ANY_SIGN = re.compile(
    r"[\s\x00-\x1f,;|=@:!+&?#\"'`<>(){}\[\]\u201c\u201d\u2018\u2019\u00ab\u00bb]+"
)
_FEW_SIGNS = 32
_MOST_SIGNS = 8
_LONGEST_NAME = 255
_LONGEST_PIECE = _LONGEST_NAME + len("-o")
_OF_PATCH = ("+++ ", "***", "diff --git ", "rename to ", "<<<<<<< ", "@@ -")
"""Each kind of patch has one of these."""
_PATCHED = re.compile(
    r"^[ \t>]*(?:---[ \t]++(?P<old>\S.*)\n[ \t>]*\+\+\+[ \t]++(?P<new>\S.*)"
    r"|(?:---|\+\+\+)[ \t]++(?P<only>\S.*)(?=\n(?:.*\n){0,2}?[ \t>]*@@ -\d)"
    r"|\*\*\*[ \t]*+(?:\w+ (?:File|to):(?P<changed>.+)|(?P<before>.+)\n[ \t>]*--- (?P<after>.+))"
    r"|diff (?:--git|-r) (?P<both>.+)|(?:rename|copy) (?:from|to) (?P<moved>.+)"
    r"|Index:(?P<index>.+)|(?P<above>\S.*)\n(?:[ \t>]*(?:```.*)?\n){0,2}[ \t>]*<{5,9} ?SEARCH)",
    re.MULTILINE,
)
"""The lines of a patch that name a file: of `diff`, git, agents' `*** Add File:`, search blocks."""
SERIAL_PORT = r"/dev/(?:tty(?:USB|ACM|AMA)\d+|cu\.[\w.-]+|serial/by-id/[\w.:+-]+)"
_LABEL = re.compile(rf"//?|\\|[=!]?~[=*]?|{SERIAL_PORT}", re.ASCII)
"""A key on a keyboard, a separator, an operator or a serial port: no path in place of a label."""
_VERSIONS = re.compile(
    r"~[>=] ?\d+(?:\.\d+)*(?:, ?(?:~>|[<>=!~]=|[<>=]) ?\d+(?:\.\d+)*)*", re.ASCII
)
"""Which versions of a package are wanted, such as `~> 5.0, < 6`: never a path."""
_MENTIONED = re.compile(r"(?<!\w)@([^\s,;()\"'`]*[^\s,;()\"'`.:?!])")
_OCTAL = re.compile(r"\\([0-7]{3})")
_MOST_PATCHED = 10_000


def is_sign(text: str, *, is_label: bool) -> bool:
    """Return whether a text is an operator, a separator or the like, though it has path signs.

    `is_label`: it stands where a label is expected.
    """
    if text[0] not in "/\\~=!":
        return False
    if is_label and _LABEL.fullmatch(text) is not None:
        return True
    return text[0] == "~" and _VERSIONS.fullmatch(text) is not None


def count_signs(text: str) -> int:
    """Return at how many places a text is taken apart; a few cost nothing, and count as none."""
    if sum(map(text.count, _SIGNS)) <= _FEW_SIGNS:
        return 0
    return sum(1 for _ in _SIDES.finditer(text))


def names_in(text: str, *, words: bool) -> Iterator[str]:
    """Yield, each once, the items of a list and both sides of a sign that can be names."""
    seen = {text}
    spaces = _SPACES.split(text) if words else ()
    sides = () if "\x00" in text else (text, text.strip().strip("\"'`<>"))
    lists = (item for sign in ",;|" if sign in text for item in text.split(sign))
    # A text without signs is all of these: to cut it once is enough.
    items = (*sides, *_ENCLOSED.split(text), *_ITEMS.split(text), *lists, *spaces)
    for item in dict.fromkeys(items):
        for piece in _sides_of(item):
            word = piece.strip()
            for name in (word, word[2:] if SHORT_OPTION.match(word) else ""):
                if name and name not in seen and len(name) <= _LONGEST_NAME:
                    seen.add(name)
                    yield name


def smallest_pieces_in(text: str) -> list[str]:
    """Return what stands between any two signs or spaces of a text, each once."""
    return [piece for piece in dict.fromkeys(_ANY_SIGN.split(text)) if piece]


def quoted_names_in(text: str) -> Iterator[str]:
    """Yield what stands between any two quotes and brackets, also where they do not match."""
    pieces = dict.fromkeys(piece.strip() for piece in _ENCLOSED.split(text))
    yield from (piece for piece in pieces if 0 < len(piece) <= _LONGEST_NAME)


def patched_names_in(text: str, *, mentions: bool = False) -> Iterator[str]:
    """Yield, each once, the paths of the files that a patch changes, as each program reads them.

    A path may count as it is, without its first name (`a/x.py`), or only by its last name.
    With `mentions` also those after an `@`.

    Raises:
        TooManyWaysError: it names more files than are looked at.
    """
    seen = dict.fromkeys(_MENTIONED.findall(text) if mentions else ())
    yield from seen
    if "\n" not in text or not any(sign in text for sign in _OF_PATCH):
        return
    for count, header in enumerate(_PATCHED.finditer(text)):
        if count == _MOST_PATCHED:
            raise TooManyWaysError
        for name, line in header.groupdict("").items():
            for path in line.split() if name == "both" else line.partition("\t")[0].split(" -> "):
                for one in _stripped(path.strip("\"'`*#: \t\r")):
                    if one and one not in seen:
                        seen[one] = None
                        yield one


def _stripped(path: str) -> tuple[str, str, str]:
    plain = _OCTAL.sub(lambda code: chr(int(code[1], 8)), path)
    return plain, plain.partition("/")[2], plain.rpartition("/")[2]


def _sides_of(item: str) -> Iterator[str]:
    """Yield an item, and what stands between any two of its signs: a name may have signs too.

    What is longer than any name is left out before it is cut: an item may have very many signs.
    """
    yield item
    starts, ends = _edges_of(item)
    for n, start in enumerate(starts):
        for end in (*ends[n : n + _MOST_SIGNS], ends[-1]):
            if end - start <= _LONGEST_PIECE:
                yield item[start:end]
                if start > 1 and item[start - 2] in _SIGNS and item[start - 1] in _SIGNS:
                    yield item[start - 1 : end]  # a name may begin with a sign, too
    first = starts[0]
    yield from (item[first:end] for end in ends[_MOST_SIGNS:] if end - first <= _LONGEST_PIECE)


def _edges_of(item: str) -> tuple[list[int], list[int]]:
    """Return where the texts between the signs of an item start and end, without spaces around."""
    starts, ends, after = [len(item) - len(item.lstrip())], list[int](), 0
    for sign in _SIDES.finditer(item):
        ends.append(after + len(item[after : sign.start()].rstrip()))
        after = sign.end(1)
        starts.append(sign.end())
    ends.append(after + len(item[after:].rstrip()))
    return starts, ends


def is_options(text: str) -> bool:
    """Return whether a value that may be a path is one line of a program's options."""
    return text[:1] == "-" and " " in text[2:] and text[1] != " " and "\n" not in text
