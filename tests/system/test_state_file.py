import errno
import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.system.private_file import StateFile


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
