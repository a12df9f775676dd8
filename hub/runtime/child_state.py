"""What can be said of a child at any time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hub.core.catalog import Listing
from hub.runtime.greeting import Greeting


@dataclass(frozen=True, slots=True)
class Starting:
    """The child is being launched, greeted and listed."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The child answers calls."""

    greeting: Greeting
    listing: Listing


@dataclass(frozen=True, slots=True)
class Down:
    """The child is gone, and why."""

    reason: str


ChildState: TypeAlias = Starting | Ready | Down
