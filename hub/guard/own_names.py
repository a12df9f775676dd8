"""Names of the hub's own files in a call, where they may be only half of a path.

A tool may put a directory and a name together, or keep the name of what it copies or fetches.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.guard.own_files import OwnFiles
from hub.values import Json, JsonObject

_LONGEST: Final = 4096


class OwnNames(Struct):
    """What a call names.

    `ends`: some value ends with the name of a file that is not to be written; `begins`: one is the
    last part of the way to what is beyond all calls.
    """

    ends: bool = False
    begins: bool = False

    @property
    def is_any(self) -> bool:
        return self.ends or self.begins


def own_names_in(own: OwnFiles | None, arguments: JsonObject) -> OwnNames:
    """Return what `arguments` name. Case and blanks around do not count; keys are not looked at.

    Not looked into: JSON in strings.
    """
    found = OwnNames()
    if own is not None and _may_name(own, arguments):
        _look(arguments, own, found)
    return found


def _may_name(own: OwnFiles, arguments: JsonObject) -> bool:
    """Return whether it is worth a look: most calls have short texts alone, and no such name."""
    endings, mark = own.endings, own.mark
    for value in arguments.values():
        if not isinstance(value, str) or len(value) > _LONGEST:
            return True
        folded = value.strip().casefold()
        if folded.endswith(endings) or mark in folded:
            return True
    return False


def _look(value: Json, own: OwnFiles, found: OwnNames) -> None:
    if isinstance(value, str):
        _see(value, own, found)
    elif isinstance(value, dict):
        for item in value.values():
            _look(item, own, found)
    elif isinstance(value, list):
        for item in value:
            _look(item, own, found)


def _see(value: str, own: OwnFiles, found: OwnNames) -> None:
    if len(value) > _LONGEST:
        return
    folded = value.strip().casefold()
    if folded.endswith(own.endings) and folded.replace("\\", "/").rpartition("/")[2] in own.names:
        found.ends = True
    if own.mark in folded and folded.startswith(own.beginnings):
        found.begins = True
