from __future__ import annotations

import os
import shutil
import sys
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


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="only Linux has it")
@pytest.mark.parametrize("mode", [0o700, 0o000])
async def test_a_directory_is_removed_however_deeply_it_is_nested(
    tmp_path: Path, mode: int
) -> None:
    """A child may have made it so, to have it kept: paths into it are longer than any may be."""
    kept = tmp_path / "kept"
    kept.mkdir()
    made = tmp_path / "made"
    made.mkdir()
    at = os.open(made, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 50):
        os.mkdir("d", dir_fd=at)
        os.symlink(kept, "link", dir_fd=at)
        os.close(os.open("file", os.O_CREAT, dir_fd=at))
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.fchmod(at, mode)
        os.close(at)
        at = below
    os.close(at)
    with anyio.fail_after(50):
        await cleared(str(made))
        while made.exists():  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(0.01)
    assert kept.is_dir()
