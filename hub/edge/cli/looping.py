"""What commands run on: uvloop where it can be imported, and memory that large messages find.

Work that is done beside the loop gives way to it soon.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TypeVar, TypeVarTuple

import anyio

from hub.runtime.allocator import keep_for_large_messages

GIVES_WAY = 0.0005
"""Seconds after which a thread gives way to another that wants to go on; Python's own are 5 ms."""

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


def run_loop(main: Callable[[*Args], Awaitable[Result]], *args: *Args) -> Result:
    """Run `main` to its end on the fastest loop there is."""
    keep_for_large_messages()
    sys.setswitchinterval(GIVES_WAY)
    return anyio.run(main, *args, backend_options={"use_uvloop": _has_uvloop()})


def _has_uvloop() -> bool:
    try:
        import_module("uvloop")
    except ImportError:
        return False
    return True
