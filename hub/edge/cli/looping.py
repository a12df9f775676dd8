"""The event loop that commands run on: uvloop where it can be imported, else asyncio's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TypeVar, TypeVarTuple

import anyio

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


def run_loop(main: Callable[[*Args], Awaitable[Result]], *args: *Args) -> Result:
    """Run `main` to its end on the fastest loop there is."""
    return anyio.run(main, *args, backend_options={"use_uvloop": _has_uvloop()})


def _has_uvloop() -> bool:
    try:
        import_module("uvloop")
    except ImportError:
        return False
    return True
