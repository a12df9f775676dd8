"""Bare names of the hub's own files, under keys that do not say that a file is named.

Such a value looks like no path and is not judged as one; to a tool that writes it may be one.
"""

from __future__ import annotations

from typing import Final

from hub.core.claims import Claim
from hub.core.rewriting import escaped
from hub.core.shapes import Node
from hub.core.values import Json, JsonObject
from hub.core.vocabulary import Kind

_LONGEST: Final = 255
_WHY: Final = "it is the name of a file of the hub's"


def named_in(names: frozenset[str], shape: Node, arguments: JsonObject) -> list[Claim]:
    """Return the values in `arguments` that are one of `names`, where they could name a file.

    Case and blanks around do not count. Not looked into: JSON in strings.
    """
    found: list[Claim] = []
    for key, value in arguments.items():
        if isinstance(value, str):
            # Most are none: no call is spent on them.
            if len(value) <= _LONGEST and value.strip().casefold() in names:
                _claim(value, shape.member(key), f"/{escaped(key)}", key, found)
        elif isinstance(value, dict | list) and value:
            _look(value, names, shape.member(key), f"/{escaped(key)}", key, found)
    return found


def _look(  # noqa: PLR0913, PLR0917 - a value and where it is
    value: Json, names: frozenset[str], node: Node, at: str, key: str, found: list[Claim]
) -> None:
    if isinstance(value, str):
        if _is_one(value, names):
            _claim(value, node, at, key, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _look(item, names, node.element(), f"{at}/{index}", key, found)
    elif isinstance(value, dict):
        for inner, item in value.items():
            _look(item, names, node.member(inner), f"{at}/{escaped(inner)}", inner, found)


def _is_one(value: str, names: frozenset[str]) -> bool:
    return len(value) <= _LONGEST and value.strip().casefold() in names


def _claim(value: Json, node: Node, at: str, key: str, found: list[Claim]) -> None:
    if node.kind is Kind.NEUTRAL:
        found.append(Claim(at, key, Kind.WEAK, value, _WHY))
