"""Loading the program sooner: nothing is done meanwhile that it has no use for."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def lean() -> Generator[None]:
    """Let what is imported meanwhile load fast.

    No garbage is looked for: what is loaded stays, and is not looked through later either.
    """
    gc.disable()
    try:
        # structlog would load it for tracebacks that show local variables, which the hub has not.
        with hidden("rich"):
            yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def hidden(name: str) -> Generator[None]:
    """Let a module pass for one that is not installed, unless it is loaded already.

    Afterwards it can be imported like any other.
    """
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    if name in modules:
        yield
        return
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]
