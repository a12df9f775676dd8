"""Basic types that all packages share: JSON, names, calls and routes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Literal, NewType, TypeAlias

from msgspec import Struct

Json: TypeAlias = "bool | int | float | Decimal | str | list[Json] | dict[str, Json] | None"
"""Any JSON value. A number that a `float` would change is a `Decimal`."""

JsonObject: TypeAlias = dict[str, "Json"]


def object_or_empty(value: Json) -> JsonObject:
    """Return `value` if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}


ServerName = NewType("ServerName", str)
"""A child server's name in the config."""

PublicName = NewType("PublicName", str)
"""The name of a tool, prompt or resource as clients see it."""

SessionKey = NewType("SessionKey", str)
"""The key of one client's session. The hub makes it; a client cannot choose it."""


STDIO: Final = "stdio"
"""The principal of clients over stdio, and of commands that do what such a client does."""
LOCAL: Final = "local"
"""The principal of all clients over HTTP where none needs a token."""
UNNAMED: Final = "token"
"""The principal of all clients with the one token of the config that has no name."""
THIS_USER: Final = frozenset({STDIO, LOCAL, "command line"})
"""The principals of clients that are this machine's user, or whom nobody tells from it."""


def identity_of(principal: str, profile: str | None) -> str:
    """Return the key of what belongs to a principal, in its profile if it has one."""
    return principal if profile is None else f"{profile}\n{principal}"


def principal_in(identity: str) -> str:
    """Return the principal of a key that `identity_of` has made."""
    profile, _, principal = identity.partition("\n")
    # The name of an issuer's client begins with a URL, and may have a line end after it.
    return principal if principal and "/" not in profile else identity


def profile_in(identity: str) -> str | None:
    """Return the profile of a key that `identity_of` has made; None if it has none."""
    principal = principal_in(identity)
    return None if principal == identity else identity.removesuffix(f"\n{principal}")


def is_this_user(identity: str) -> bool:
    """Return whether what has this identity belongs to this machine's user."""
    return principal_in(identity) in THIS_USER


CallMethod: TypeAlias = Literal[
    "tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete"
]
"""The requests whose arguments can name paths."""


class Call(Struct, frozen=True):
    """One request that the guard decides on, as it will be sent to the child.

    `params` is the whole object for the child, with the child's own tool name. `arguments` is the
    part that the guard checks: the same object as inside `params`, not a copy.
    """

    method: CallMethod
    name: str
    arguments: JsonObject
    params: JsonObject


class ChildRoute(Struct, frozen=True):
    """The route to `name` at the child `server`; `definition` is its entry in the child's list."""

    server: ServerName
    name: str
    definition: Mapping[str, Json]


class BuiltinRoute(Struct, frozen=True):
    """The route to one of the hub's own tools."""

    name: str


Route: TypeAlias = ChildRoute | BuiltinRoute
