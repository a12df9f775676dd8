from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import anyio
import pytest

from hub.children.process.private_folders import PrivateFolders, cleared
from tests.kit.loops import all_tasks_blocked


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
        while exists(made):  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(0.01)
    assert kept.is_dir()


def exists(path: str | Path) -> bool:
    return Path(path).exists()


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


def listed(folder: Path) -> set[Path]:
    return {*folder.iterdir()}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def until_gone(path: Path) -> None:
    with anyio.fail_after(20):
        while exists(path):  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(0.01)


async def test_the_folders_of_a_hub_are_in_one_of_its_own_that_goes_with_it(
    temporary: Path,
) -> None:
    told: list[str] = []
    folders = PrivateFolders(told.append)
    await folders.close()
    assert told == [], "most hubs need none"
    async with folders.folder() as one, folders.folder() as two:
        assert Path(one).parent == Path(two).parent == Path(told[0])
        assert {mode_of(each) for each in (one, two, told[0])} == {0o700}
    assert not exists(one)
    assert {*map(Path, told)} == listed(temporary)
    await folders.close()
    assert listed(temporary) == set()


async def test_the_folders_have_whole_paths_where_tmpdir_is_a_relative_one(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(temporary)
    tempfile.tempdir = "."
    told: list[str] = []
    folders = PrivateFolders(told.append)
    async with folders.folder() as one:
        assert Path(one).parent == Path(told[0])
        assert Path(told[0]).parent == temporary
    await folders.close()


async def test_a_folder_that_another_program_has_removed_is_made_again(temporary: Path) -> None:
    told: list[str] = []
    folders = PrivateFolders(told.append)
    async with folders.folder():
        shutil.rmtree(told[0])
    made: list[str] = []

    async def make() -> None:
        async with folders.folder() as one:
            made.append(one)
            await all_tasks_blocked()
            assert exists(one)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        tasks.start_soon(make)
    assert {Path(one).parent for one in made} == {Path(told[1])} == listed(temporary)
    await folders.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no folder can be locked there")
async def test_what_hubs_have_left_is_removed_and_nothing_else(temporary: Path) -> None:
    other, theirs = PrivateFolders(lambda _: None), temporary / "theirs"
    (theirs / "kept").mkdir(parents=True)
    async with other.folder() as in_use:
        for looking in threading.enumerate():
            if looking.name == "abandoned folders":
                looking.join()
        left, shared = temporary / "roots-hub.left", temporary / "roots-hub.shared"
        (left / "a" / "home").mkdir(parents=True)
        (left / "a" / "link").symlink_to(theirs)
        (temporary / "roots-hub.link").symlink_to(theirs)
        (temporary / "roots-hub.file").touch()
        (temporary / "roots-hub-0").mkdir()
        shared.mkdir()
        shared.chmod(0o777)
        kept = listed(temporary) - {left}
        folders = PrivateFolders(lambda _: None)
        async with folders.folder():
            await until_gone(left)
            await all_tasks_blocked()
            assert exists(in_use)
        await folders.close()
        assert listed(temporary) == kept
        assert listed(theirs) == {theirs / "kept"}
    await other.close()


@pytest.mark.parametrize(
    ("error", "made"), [(errno.EWOULDBLOCK, 2), (errno.ENOLCK, 1)], ids=["taken", "no locks"]
)
@pytest.mark.skipif(sys.platform == "win32", reason="no folder can be locked there")
async def test_a_folder_that_another_hub_is_about_to_remove_is_not_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, error: int, made: int
) -> None:
    errors = [OSError(error, os.strerror(error))]
    lock = fcntl.flock

    def flock(handle: int, how: int) -> None:
        if errors:
            raise errors.pop()
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    told: list[str] = []
    folders = PrivateFolders(told.append)
    (temporary / "roots-hub.left").mkdir()
    async with folders.folder() as folder:
        assert str(Path(folder).parent) == told[0]
        if made > 1:
            await until_gone(temporary / "roots-hub.left")
        else:
            await all_tasks_blocked()
            assert (temporary / "roots-hub.left").exists(), "it cannot be told whose it is"
    await folders.close()


async def test_where_no_folder_can_be_made_that_is_said(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(_handle: int, _how: int) -> None:
        raise BlockingIOError(errno.EWOULDBLOCK, "taken")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="other programs remove the folders that are made"):
        async with PrivateFolders(lambda _: None).folder():
            pytest.fail(f"there is none in {temporary}")
