from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.system.atomic_file import replace_file
from hub.system.private_file import (
    CacheFiles,
    CacheLimits,
    StateFile,
    UnfitEntryError,
    append_private,
    private_directory,
    read_private,
    secret_in,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key"
    secret = secret_in(path)
    assert len(secret) == 64
    assert secret_in(path) == secret
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert secret_in(tmp_path / "other" / "key") != secret


def test_a_secret_that_others_may_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "key"
    secret_in(path)
    path.chmod(0o640)
    with pytest.raises(PermissionError, match="other users"):
        secret_in(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    real, link, hard = tmp_path / "real", tmp_path / "link", tmp_path / "hard"
    secret_in(real)
    link.symlink_to(real)
    for use in (secret_in, append_private):
        with pytest.raises(OSError, match=r"it is a link"):
            use(link)
    os.link(real, hard)
    with pytest.raises(PermissionError, match="hard link"):
        secret_in(real)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 5000])
def test_a_damaged_secret_is_told_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    replace_file(path, content)
    with pytest.raises(OSError, match="no secret"):
        secret_in(path)
    assert path.read_bytes() == content


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"plain file|directory"):
        read_private(tmp_path, 10)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(OSError, match="plain file"):
        read_private(tmp_path / "pipe", 10)


def test_a_directory_that_others_may_write_is_narrowed(tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    private_directory(wide)
    assert mode(wide) == 0o700


def test_a_file_that_cannot_be_replaced_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "there", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_entries_are_kept_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new/roots-hub/x.json"
    StateFile(path).write("a", {"n": 1})
    StateFile(path).write("b", "text")
    assert StateFile(path).read() == {"a": {"n": 1}, "b": "text"}
    StateFile(path).write("a", None)
    assert StateFile(path).read() == {"b": "text"}
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    assert [entry.name for entry in path.parent.iterdir()] == ["x.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff", "[" * 10**5])
def test_a_damaged_file_counts_as_empty_and_can_be_written_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, "latin-1")
    assert StateFile(path).read() == {}
    StateFile(path).write("a", 1)
    assert StateFile(path).read() == {"a": 1}


@pytest.mark.parametrize("which", ["file", "directory"])
def test_what_others_may_write_counts_as_empty_until_it_is_written_again(
    tmp_path: Path, which: str
) -> None:
    path = tmp_path / "state/x.json"
    StateFile(path).write("a", 1)
    (path if which == "file" else path.parent).chmod(0o777)
    with capture_logs() as logs:
        assert StateFile(path).read() == {}
    assert logs[0]["event"] == "ignored, as other users may write it"
    StateFile(path).write("b", 2)
    assert StateFile(path).read()["b"] == 2
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_nothing_is_written_into_another_users_directory(tmp_path: Path) -> None:
    """With `sudo` and the user's HOME: the user could not read what root has written there."""
    path = tmp_path / "state/x.json"
    path.parent.mkdir()
    path.parent.chmod(0o755)
    os.chown(path.parent, 65534, -1)
    with pytest.raises(PermissionError, match="another user"):
        StateFile(path).write("a", 1)
    assert [*path.parent.iterdir()] == []
    assert mode_of(path.parent) == 0o755


def test_entries_that_cannot_be_read_now_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    StateFile(path).write("a", 1)

    def not_now(_path: Path, encoding: str) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", encoding)

    with monkeypatch.context() as inner:
        inner.setattr(Path, "read_text", not_now)
        assert StateFile(path).read() == {}
        with pytest.raises(PermissionError):
            StateFile(path).write("b", 2)
    assert StateFile(path).read() == {"a": 1}


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file/x.json", None):
        with pytest.raises(OSError, match=r"."):
            StateFile(path).write("a", 1)
        assert StateFile(path).read() == {}
    (tmp_path / "x.json").mkdir()
    with pytest.raises(OSError, match=r"."):
        StateFile(tmp_path / "x.json").write("a", 1)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "x.json"]


SMALL = CacheLimits(files=3, file_bytes=100, bytes=250)


def at_age(path: Path, seconds: int) -> None:
    now = path.stat().st_mtime
    os.utime(path, (now - seconds, now - seconds))


def test_files_are_the_users_alone(tmp_path: Path) -> None:
    directory = tmp_path / "new/roots-hub/catalogs"
    files = CacheFiles(directory)
    assert files.read("a") is None
    files.write("a", b"one")
    files.write("a", b"two")
    assert files.read("a") == b"two"
    assert [mode_of(path) for path in (directory / "a", directory, directory.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
    assert [path.name for path in directory.iterdir()] == ["a"]


def linked(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def hard_linked(path: Path) -> None:
    path.with_name("other").hardlink_to(path)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def huge(path: Path) -> None:
    path.write_bytes(b"x" * 101)


def group_writable(path: Path) -> None:
    path.chmod(0o620)


@pytest.mark.parametrize("spoil", [linked, hard_linked, a_pipe, a_directory, huge, group_writable])
def test_what_is_no_file_of_our_own_is_not_read(tmp_path: Path, spoil: object) -> None:
    files = CacheFiles(tmp_path / "c", SMALL)
    files.write("a", b"text")
    spoil(tmp_path / "c/a")  # pyright: ignore[reportCallIssue] - one of the functions above
    with pytest.raises(UnfitEntryError):
        files.read("a")


@pytest.mark.parametrize("spoil", [linked, hard_linked, a_pipe, huge, group_writable])
def test_it_is_replaced_and_what_a_link_leads_to_stays(tmp_path: Path, spoil: object) -> None:
    files = CacheFiles(tmp_path / "c", SMALL)
    files.write("a", b"text")
    spoil(tmp_path / "c/a")  # pyright: ignore[reportCallIssue] - one of the functions above
    files.write("a", b"new")
    assert files.read("a") == b"new"
    for other in ("moved", "other"):
        assert not (tmp_path / "c" / other).exists() or files.read(other) == b"text"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_or_directory_is_not_read(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path / "c")
    files.write("a", b"text")
    os.chown(tmp_path / "c/a", 4242, 4242)
    with pytest.raises(UnfitEntryError):
        files.read("a")
    files.write("a", b"text")
    os.chown(tmp_path / "c", 4242, 4242)
    with capture_logs() as logs:
        assert files.read("a") is None
        assert files.read("a") is None
    assert [entry["event"] for entry in logs] == ["cache not used"]


def test_a_directory_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    CacheFiles(tmp_path / "c").write("a", b"text")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    files = CacheFiles(tmp_path / "link")
    with capture_logs() as logs:
        assert files.read("a") is None
        files.write("b", b"text")
    assert len(logs) == 1
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["a"]


def test_a_directory_that_others_could_write_is_not_read_until_it_is_ours_again(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "c"
    CacheFiles(directory).write("a", b"text")
    directory.chmod(0o777)
    assert CacheFiles(directory).read("a") is None
    CacheFiles(directory).write("a", b"new")
    assert mode_of(directory) == 0o700
    assert CacheFiles(directory).read("a") == b"new"


def test_where_nothing_can_be_written_the_log_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = CacheFiles(tmp_path / "file" / "c")
    with capture_logs() as logs:
        files.write("a", b"1")
        files.write("b", b"2")
        assert files.read("a") is None
    assert [entry["event"] for entry in logs] == ["cache not used"]


def test_without_a_directory_nothing_is_kept() -> None:
    files = CacheFiles(None)
    files.write("a", b"text")
    assert files.read("a") is None


def test_the_files_unused_for_longest_make_room(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, SMALL)
    for age, name in enumerate("dcba"):
        files.write(name, b"x")
        at_age(tmp_path / name, 20_000 - age * 1000)
    assert {path.name for path in tmp_path.iterdir()} == set("abc")
    assert files.read("c") == b"x"
    files.write("e", b"x")
    assert {path.name for path in tmp_path.iterdir()} == set("ace")
    files.write("f", b"x" * 100)
    files.write("g", b"x" * 100)
    files.write("h", b"x" * 100)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= SMALL.bytes


def test_what_is_too_large_is_not_written_and_the_old_file_goes(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, SMALL)
    files.write("a", b"x")
    files.write("a", b"x" * 101)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_after_a_while(tmp_path: Path) -> None:
    (tmp_path / ".new-old").write_bytes(b"half")
    (tmp_path / ".new-now").write_bytes(b"half")
    at_age(tmp_path / ".new-old", 7200)
    CacheFiles(tmp_path, SMALL).write("a", b"x")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".new-now"}
