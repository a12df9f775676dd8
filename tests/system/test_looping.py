from __future__ import annotations

import asyncio  # noqa: TID251 - to tell which loop it is
import sys

import pytest

from hub.system.this_process import run_loop


async def loop_and(*values: int) -> tuple[str, tuple[int, ...]]:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0], values


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not for Windows")
def test_commands_run_on_uvloop() -> None:
    assert run_loop(loop_and, 1, 2) == ("uvloop", (1, 2))


def test_commands_run_on_asyncio_where_uvloop_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_loop(loop_and) == ("asyncio", ())
