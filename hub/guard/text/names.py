"""Find the parts of a text without path signs that can be file names."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEMS = re.compile(r"[,;|\x00-\x1f\"'`<>(){}\[\]]+")
_ENCLOSED = re.compile(r"[\x00-\x1f\"'`<>(){}\[\]\u201c\u201d\u2018\u2019\u00ab\u00bb]+")
_SIDES = re.compile(r"([=@:!+&?#]+)\s*")
_SPACES = re.compile(r"\s+")
SHORT_OPTION = re.compile(r"-[A-Za-z].")
_SIGNS = "=@:!+&?#"
_ANY_SIGN = re.compile(
    r"[\s\x00-\x1f,;|=@:!+&?#\"'`<>(){}\[\]\u201c\u201d\u2018\u2019\u00ab\u00bb]+"
)
_FEW_SIGNS = 32
_MOST_SIGNS = 8
_LONGEST_NAME = 255
_LONGEST_PIECE = _LONGEST_NAME + len("-o")


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
