import errno
import os
import resource
import signal
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hub.errors import StartError
from hub.system.atomic_file import backed_up, created, look, opened
from tests.kit.trees import Renamed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hub.yaml"
    path.write_text("old\n")
    path.chmod(0o640)
    return path


def replace(path: Path, text: str) -> None:
    with opened(path) as there:
        there.replace(text)


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_the_new_text_takes_the_place_of_the_old_one(file: Path) -> None:
    before = look(file)
    replace(file, "new: ü\r\n")
    assert file.read_bytes() == b"new: \xc3\xbc\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert look(file) != before
    assert names(file.parent) == ["hub.yaml"]


def test_a_link_stays_one(file: Path) -> None:
    link = file.parent / "sub" / "link.yaml"
    link.parent.mkdir()
    link.symlink_to("../hub.yaml")
    replace(link, "new\n")
    assert (link.is_symlink(), file.read_text()) == (True, "new\n")


def test_a_byte_order_mark_stays(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfold\n")
    with opened(file) as there:
        assert there.text == "old\n"
        there.replace("new\n")
    assert file.read_bytes() == b"\xef\xbb\xbfnew\n"


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(file: Path) -> None:
    with opened(file) as there:
        file.write_text("theirs\n")
        with pytest.raises(StartError, match="another program changed it in the meantime"):
            there.replace("ours\n")
    assert (file.read_text(), names(file.parent)) == ("theirs\n", ["hub.yaml"])


def test_an_owner_that_cannot_be_kept_is_not_changed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def chown(_: Path, uid: int, gid: int) -> None:
        asked.append((uid, gid))
        raise PermissionError(1, "Operation not permitted")

    found = file.stat()
    monkeypatch.setattr(os, "chown", chown)
    replace(file, "same owner\n")
    assert asked == []
    real = Path.stat

    def foreign(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        seen = real(path, follow_symlinks=follow_symlinks)
        if path.name != "hub.yaml":
            return seen
        return os.stat_result([*seen[:4], found.st_uid + 1, found.st_gid, *seen[6:]])

    monkeypatch.setattr(Path, "stat", foreign)
    with pytest.raises(StartError, match="Operation not permitted"):
        replace(file, "other owner\n")
    assert asked == [(found.st_uid + 1, found.st_gid)]
    assert (file.read_text(), names(file.parent)) == ("same owner\n", ["hub.yaml"])


def test_a_file_that_may_not_be_written_is_not_replaced(file: Path) -> None:
    file.chmod(0o400)
    with pytest.raises(StartError, match=r"Permission denied\n.*Make the file and its directory"):
        replace(file, "new\n")
    assert file.read_text() == "old\n"


def test_text_that_is_not_unicode_is_not_written(file: Path) -> None:
    with pytest.raises(StartError, match="not Unicode"):
        replace(file, "\udcff")
    assert file.read_text() == "old\n"


def test_a_file_that_cannot_be_read_is_not_opened(file: Path) -> None:
    with pytest.raises(StartError, match="No such file"):
        replace(file.parent / "gone.yaml", "new\n")
    file.write_bytes(b"\xff")
    with pytest.raises(StartError, match=r"is not UTF-8\nSave the file as UTF-8\."):
        replace(file, "new\n")
    assert look(file.parent / "gone.yaml") is None


def test_a_new_file_is_written_whole_and_never_over_another(file: Path) -> None:
    path = file.parent / "new.json"
    created(path, "{}\n", 0o600)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("{}\n", 0o600)
    with pytest.raises(StartError, match="another program has made it"):
        created(path, "other")
    with pytest.raises(StartError, match="not Unicode"):
        created(file.parent / "x", "\ud800")
    with pytest.raises(StartError, match="No such file or directory"):
        created(file.parent / "no" / "x", "x")
    assert sorted(names(file.parent)) == ["hub.yaml", "new.json"]


def test_a_new_file_has_the_usual_mode(file: Path) -> None:
    before = os.umask(0o027)
    try:
        created(file.parent / "new", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((file.parent / "new").stat().st_mode) == 0o640


def test_copies_are_beside_the_file_and_as_private(file: Path) -> None:
    first, second = backed_up(file), backed_up(file)
    assert first != second
    for kept in (first, second):
        assert kept.name.startswith("hub.yaml.roots-hub-")
        assert kept.read_text() == "old\n"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_a_copy_that_cannot_be_written_whole_is_an_error_and_leaves_nothing(file: Path) -> None:
    file.write_text("x" * 5000)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(StartError, match="not written: File too large"):
            backed_up(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert names(file.parent) == ["hub.yaml"]


def test_a_new_mode_is_there_before_the_new_text(file: Path, renamed: Sequence[Renamed]) -> None:
    with opened(file) as there:
        there.replace("secret\n", 0o600)
    assert [(one.mode, one.content) for one in renamed] == [(0o600, b"secret\n")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "Nothing was changed. Free some space on its disk, then try again."),
        (errno.EACCES, "Nothing was changed. Make the file and its directory writable for you."),
        (errno.EROFS, "Nothing was changed. Make the file and its directory writable for you."),
        (errno.EIO, "Nothing was changed. Try again, or edit it."),
    ],
)
def test_what_cannot_be_written_is_told_with_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fix: str
) -> None:
    def failing(*_: object, **__: object) -> tuple[int, str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", failing)
    with pytest.raises(StartError) as raised:
        created(tmp_path / "x", "text")
    assert raised.value.what == f"{tmp_path}/x: not written: {os.strerror(number)}"
    assert raised.value.fix == fix
