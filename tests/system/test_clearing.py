from __future__ import annotations

import shutil
import threading
from pathlib import Path

import anyio
import pytest

from hub.system.disk import cleared


async def test_a_directory_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "made" / "deep").mkdir(parents=True)
    (tmp_path / "made" / "deep" / "file").touch()
    with anyio.fail_after(20):
        await cleared(str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


async def test_a_slow_removal_delays_no_other_task(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, is_done = threading.Event(), threading.Event()

    def slow(directory: str, *, ignore_errors: bool) -> None:
        assert (directory, ignore_errors) == ("/large", True)
        goes_on.wait(20)
        is_done.set()

    monkeypatch.setattr(shutil, "rmtree", slow)
    with anyio.fail_after(20):
        await cleared("/large")
    assert not is_done.is_set()
    goes_on.set()
    assert is_done.wait(20)
