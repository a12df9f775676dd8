"""The words the hub's parts speak to each other in: JSON, names, calls, routes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NewType, TypeAlias

from msgspec import Struct

Json: TypeAlias = "bool | int | float | Decimal | str | list[Json] | dict[str, Json] | None"
"""Any JSON value. A number that no `float` repeats exactly as it was written is a `Decimal`."""

JsonObject: TypeAlias = dict[str, "Json"]


def object_or_empty(value: Json) -> JsonObject:
    """Return a JSON object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


ServerName = NewType("ServerName", str)
"""A child server's name in the config."""

PublicName = NewType("PublicName", str)
"""A tool's, prompt's or resource's name as clients see it."""

SessionKey = NewType("SessionKey", str)
"""Names one client's session: minted by the hub, never sent by a client of its own choosing."""

CallMethod: TypeAlias = Literal[
    "tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete"
]
"""The requests whose arguments can name paths."""


class Call(Struct, frozen=True):
    """One guarded request, as it will be sent to the child that owns its name.

    `params` is the whole object for the child, with the child's own name in it. `arguments` is the
    part of it that the guard walks: the very object inside `params`, not a copy.
    """

    method: CallMethod
    name: str
    arguments: JsonObject
    params: JsonObject


class ChildRoute(Struct, frozen=True):
    """A public name that leads to `name` at the child `server`, listed there as `definition`."""

    server: ServerName
    name: str
    definition: Mapping[str, Json]


class BuiltinRoute(Struct, frozen=True):
    """A public name that leads to one of the hub's own tools."""

    name: str


Route: TypeAlias = ChildRoute | BuiltinRoute
