"""Text in colours, for people: on a terminal that shows them."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final

from hub.system.log import shows_colours

GOOD: Final = "bold green"
BAD: Final = "bold red"
WARNING: Final = "yellow"
HINT: Final = "cyan"
NAME: Final = "bold"
FAINT: Final = "dim"


def painted(text: str, style: str) -> str:
    """Return a text in a style such as `bold red`, or as it is where there are no colours."""
    return _rendered(text, style) if text and style and shows_colours(sys.stdout) else text


@lru_cache(256)
def _rendered(text: str, style: str) -> str:
    from rich.style import Style  # noqa: PLC0415 - slow to load, and not needed in a pipe

    return Style.parse(style).render(text)
