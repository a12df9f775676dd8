"""The event loops that the hub runs on."""

import asyncio  # noqa: TID251 - it says what a loop is
import sys
import warnings
from typing import Any, TypeAlias

Backend: TypeAlias = tuple[str, dict[str, Any]]


def fast_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that users get, which also ends where a test leaves something open in it.

    Closing it warns of that. Where warnings are errors it would, by itself, then wait for ever.
    """
    import uvloop  # noqa: PLC0415 - not everywhere

    class Loop(uvloop.Loop):
        def close(self) -> None:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                super().close()
            for one in told:
                warnings.warn(one.message, stacklevel=2)

    return Loop()


PLAIN: Backend = ("asyncio", {"use_uvloop": False})
FAST: Backend = PLAIN if sys.platform == "win32" else ("asyncio", {"loop_factory": fast_loop})
"""The one that users get."""
BOTH = [FAST] if FAST is PLAIN else [FAST, PLAIN]
"""Also the one for where that cannot be had."""
