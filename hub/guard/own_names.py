"""Find names of the hub's own files in a call's arguments, even if they are only part of a path.

A tool may join a directory and a name, or keep the name of a file that it copies or fetches.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.guard.own_files import OwnFiles
from hub.values import JsonObject

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
    named = [
        text for text in _texts_in(arguments) if text.endswith(own.endings) or own.mark in text
    ]
    if not named:
        return _NO_NAMES
    return OwnNames(
        any(_ends(text, own) for text in named), any(_begins(text, own) for text in named)
    )


def _texts_in(arguments: JsonObject) -> list[str]:
    """Return the strings that are searched, at any depth, as they are compared."""
    found: list[str] = []
    values = [*arguments.values()]
    for value in values:  # it grows meanwhile
        if isinstance(value, str):
            if len(value) <= _LONGEST:
                found.append(value.strip().casefold())
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
    return found


def _ends(text: str, own: OwnFiles) -> bool:
    return text.endswith(own.endings) and text.replace("\\", "/").rpartition("/")[2] in own.names


def _begins(text: str, own: OwnFiles) -> bool:
    return own.mark in text and text.startswith(own.beginnings)
