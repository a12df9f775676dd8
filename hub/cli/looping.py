"""The event loop of a command; it needs no config, so that a login for a client starts faster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TypeVar, TypeVarTuple

import anyio

from hub.system.this_process import hide_from_others, keep_for_large_messages

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


def run_loop(main: Callable[[*Args], Awaitable[Result]], *args: *Args) -> Result:
    """Return the result of `main`, run on uvloop if it is installed.

    First tunes the memory of this process and hides its memory and environment from others.
    """
    keep_for_large_messages()
    hide_from_others()
    return anyio.run(main, *args, backend_options={"use_uvloop": _has_uvloop()})


def _has_uvloop() -> bool:
    try:
        import_module("uvloop")
    except ImportError:
        return False
    return True
