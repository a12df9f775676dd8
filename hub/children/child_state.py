"""What can be said of a child at any time."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from hub.catalog.merge import Listing
from hub.children.handshake import Greeting


class Starting(Struct, frozen=True):
    """The child is being launched, greeted and listed."""


class Ready(Struct, frozen=True):
    """The child answers calls."""

    greeting: Greeting
    listing: Listing


class Down(Struct, frozen=True):
    """The child is gone, and why."""

    reason: str


ChildState: TypeAlias = Starting | Ready | Down
