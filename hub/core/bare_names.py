"""Names of the hub's own files in a call, where they look like no path or are only half of one.

`{"workbook": "hub.yaml"}` looks like no path, and to a tool that writes it may be one. And a tool
may put a directory and a name together, or keep the name of what it copies or fetches.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.core.claims import Claim
from hub.core.own_files import OwnFiles
from hub.core.rewriting import escaped
from hub.core.shapes import Node
from hub.core.values import Json, JsonObject
from hub.core.vocabulary import Kind

_LONGEST: Final = 4096
_WHY: Final = "it is the name of a file of the hub's"


class Named(Struct):
    """What a call names: `bare` are values under keys that say nothing.

    `ends`: some value ends with the name of a file that is not to be written; `begins`: one is the
    last part of the way to what is beyond all calls.
    """

    bare: list[Claim]
    ends: bool = False
    begins: bool = False

    @property
    def is_any(self) -> bool:
        return self.ends or self.begins


def named_in(own: OwnFiles, shape: Node, arguments: JsonObject) -> Named:
    """Return what `arguments` name. Case and blanks around do not count; keys are not looked at.

    Not looked into: JSON in strings.
    """
    found = Named([])
    for key, value in arguments.items():
        if isinstance(value, str):
            _see(value, own, found)
            if found.ends and _is_bare(value, own):
                _claim(value, shape.member(key), f"/{escaped(key)}", key, found)
        elif isinstance(value, dict | list) and value:
            _look(value, own, shape.member(key), f"/{escaped(key)}", key, found)
    return found


def _look(  # noqa: PLR0913, PLR0917 - a value and where it is
    value: Json, own: OwnFiles, node: Node, at: str, key: str, found: Named
) -> None:
    if isinstance(value, str):
        _see(value, own, found)
        if found.ends and _is_bare(value, own):
            _claim(value, node, at, key, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _look(item, own, node.element(), f"{at}/{index}", key, found)
    elif isinstance(value, dict):
        for inner, item in value.items():
            _look(item, own, node.member(inner), f"{at}/{escaped(inner)}", inner, found)


def _see(value: str, own: OwnFiles, found: Named) -> None:
    if len(value) > _LONGEST:
        return
    folded = value.strip().casefold()
    if folded.endswith(own.endings) and folded.replace("\\", "/").rpartition("/")[2] in own.names:
        found.ends = True
    if own.mark in folded and folded.startswith(own.beginnings):
        found.begins = True


def _is_bare(value: str, own: OwnFiles) -> bool:
    return len(value) <= _LONGEST and value.strip().casefold() in own.names


def _claim(value: str, node: Node, at: str, key: str, found: Named) -> None:
    if node.kind is Kind.NEUTRAL:
        found.bare.append(Claim(at, key, Kind.WEAK, value, _WHY))
