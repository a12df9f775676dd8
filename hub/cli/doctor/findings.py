"""What the doctor finds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing that is wrong in `area`: what, and what to do, a command where there is one."""

    area: str
    what: str
    fix: str
    level: Literal["problem", "warning"] = "problem"
