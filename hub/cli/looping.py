"""What commands run on: uvloop where it can be imported, and memory that large messages find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TypeVar, TypeVarTuple

import anyio

from hub.system.memory import keep_for_large_messages
from hub.system.privacy import hide_from_others

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


def run_loop(main: Callable[[*Args], Awaitable[Result]], *args: *Args) -> Result:
    """Run `main` to its end on the fastest loop there is."""
    keep_for_large_messages()
    hide_from_others()
    return anyio.run(main, *args, backend_options={"use_uvloop": _has_uvloop()})


def _has_uvloop() -> bool:
    try:
        import_module("uvloop")
    except ImportError:
        return False
    return True
