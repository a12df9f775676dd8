import errno
import os
from io import FileIO
from pathlib import Path

import pytest

from hub.audit.open_file import UnfitFileError
from hub.cli import options
from hub.cli.options import LogFile


def test_a_large_log_is_moved_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "hub.log"
    log = LogFile(path, largest=100)
    for number in range(30):
        log.write(f"line {number:02} of the log\n")
    assert path.stat().st_mode & 0o777 == 0o600
    kept = path.with_suffix(".log.1").read_text() + path.read_text()
    assert kept.endswith("line 29 of the log\n")
    assert path.stat().st_size <= 120
    assert sorted(os.listdir(path.parent)) == ["hub.log", "hub.log.1"]  # noqa: PTH208 - names
    log.close()
    again = LogFile(path, largest=100)
    again.write("more\n")
    again.close()
    assert path.read_text().endswith("more\n")


def test_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "hub.log").symlink_to(tmp_path / "other")
    with pytest.raises(UnfitFileError):
        LogFile(tmp_path / "hub.log")


def test_where_no_new_log_can_be_made_the_old_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hub.log"
    log = LogFile(path, largest=20)
    log.write("first\n")

    def full(_path: Path) -> FileIO:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as inner:
        inner.setattr(options, "open_to_add", full)
        log.write("one that fills it\n")
        log.write("more\n")
    log.write("space again\n")
    log.write("last\n")
    log.close()
    kept = path.with_suffix(".log.1").read_text() + path.read_text()
    assert kept == "first\none that fills it\nmore\nspace again\nlast\n"
    assert path.read_text() == "space again\nlast\n"
