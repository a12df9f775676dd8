"""Find names of the hub's own files in a call's arguments, even if they are only part of a path.

A tool may join a directory and a name, or keep the name of a file that it copies or fetches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from hub.guard.own_files import OwnFiles
from hub.values import Json, JsonObject

_LONGEST: Final = 4096


class OwnNames(Struct, frozen=True):
    """Which names of the hub's own files a call has in its arguments.

    `ends`: a value ends with the name of a file that no call may write. `begins`: a value begins
    with the last part of the path of a secret place, which no call may reach.
    """

    ends: bool = False
    begins: bool = False


_NO_NAMES: Final = OwnNames()


def own_names_in(own: OwnFiles | None, arguments: JsonObject) -> OwnNames:
    """Return which of the hub's own names the values in `arguments` have.

    Case and surrounding blanks are ignored. Not searched: object keys, JSON inside strings, and
    strings of more than 4096 characters.
    """
    if own is None:
        return _NO_NAMES
    endings, mark = own.endings, own.mark
    for value in arguments.values():
        if not isinstance(value, str) or len(value) > _LONGEST:
            break
        folded = value.strip().casefold()
        if folded.endswith(endings) or mark in folded:
            break
    else:
        return _NO_NAMES  # all are short texts without a name, as nearly always
    texts = [*_texts_in(arguments)]
    return OwnNames(
        any(_ends(text, own) for text in texts), any(_begins(text, own) for text in texts)
    )


def _texts_in(value: Json) -> Iterator[str]:
    """Yield the strings in a value that are searched, as they are compared."""
    if isinstance(value, str):
        if len(value) <= _LONGEST:
            yield value.strip().casefold()
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


def _ends(text: str, own: OwnFiles) -> bool:
    return text.endswith(own.endings) and text.replace("\\", "/").rpartition("/")[2] in own.names


def _begins(text: str, own: OwnFiles) -> bool:
    return own.mark in text and text.startswith(own.beginnings)
