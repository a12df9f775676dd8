"""Find names of the hub's own files in a call's arguments, even if they are only part of a path.

A tool may join a directory and a name, or keep the name of a file that it copies or fetches.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.guard.own_files import OwnFiles
from hub.values import Json, JsonObject

_LONGEST: Final = 4096


class OwnNames(Struct):
    """Which names of the hub's own files a call has in its arguments.

    `ends`: a value ends with the name of a file that no call may write. `begins`: a value begins
    with the last part of the path of a secret place, which no call may reach.
    """

    ends: bool = False
    begins: bool = False


def own_names_in(own: OwnFiles | None, arguments: JsonObject) -> OwnNames:
    """Return which of the hub's own names the values in `arguments` have.

    Case and surrounding blanks are ignored. Not searched: object keys, JSON inside strings, and
    strings of more than 4096 characters.
    """
    found = OwnNames()
    if own is not None and _may_name(own, arguments):
        _search(arguments, own, found)
    return found


def _may_name(own: OwnFiles, arguments: JsonObject) -> bool:
    """Return whether a full search is needed: not if all values are short texts without a name."""
    endings, mark = own.endings, own.mark
    for value in arguments.values():
        if not isinstance(value, str) or len(value) > _LONGEST:
            return True
        folded = value.strip().casefold()
        if folded.endswith(endings) or mark in folded:
            return True
    return False


def _search(value: Json, own: OwnFiles, found: OwnNames) -> None:
    if isinstance(value, str):
        _search_text(value, own, found)
    elif isinstance(value, dict):
        for item in value.values():
            _search(item, own, found)
    elif isinstance(value, list):
        for item in value:
            _search(item, own, found)


def _search_text(value: str, own: OwnFiles, found: OwnNames) -> None:
    if len(value) > _LONGEST:
        return
    folded = value.strip().casefold()
    if folded.endswith(own.endings) and folded.replace("\\", "/").rpartition("/")[2] in own.names:
        found.ends = True
    if own.mark in folded and folded.startswith(own.beginnings):
        found.begins = True
