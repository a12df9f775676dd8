"""Whether a stream is a terminal that shows colours."""

from __future__ import annotations

import os
from typing import TextIO


def shows_colours(stream: TextIO) -> bool:
    """Return whether colours are wanted there (https://no-color.org: NO_COLOR, unless empty)."""
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}
    )
