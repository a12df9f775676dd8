from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from hub.secrets.reading import MAX_BYTES, SecretError, file_value, open_to_others


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"t0ken\n", "t0ken"),
        (b"t0ken\r\n", "t0ken"),
        (b"t0ken", "t0ken"),
        (b" a\n\n", " a\n"),
        ("schlüssel\n".encode(), "schlüssel"),
        (b"x" * MAX_BYTES, "x" * MAX_BYTES),
    ],
)
def test_a_files_value_is_its_content_without_one_newline(
    tmp_path: Path, content: bytes, value: str
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert file_value(str(file)) == file_value(str(link)) == value


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"t0ken\0", "has a NUL character"),
        (b"t0ken\xff", "is not UTF-8 text"),
        (b"t0ken" + b"x" * MAX_BYTES, "has more than 64 KiB"),
    ],
)
def test_a_file_that_is_no_fit_value_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SecretError, match=why) as raised:
        file_value(str(file))
    assert "t0ken" not in str(raised.value).replace(str(file), "")
    assert raised.value.fix


def test_a_file_that_is_not_there_or_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="there is no file"):
        file_value(str(tmp_path / "none"))
    os.mkfifo(tmp_path / "fifo")
    for name in ("", "fifo"):
        with pytest.raises(SecretError, match="is not a file"):
            file_value(str(tmp_path / name))
    with pytest.raises(SecretError, match="it is no path"):
        file_value("a\0b")
    (tmp_path / "file").write_text("x")
    with pytest.raises(SecretError, match="cannot be read"):
        file_value(str(tmp_path / "file" / "below"))


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_a_file_that_others_can_read_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert open_to_others(str(file)) is None
    file.chmod(0o640)
    sentence = open_to_others(str(file))
    assert sentence is not None
    assert f"{file} is open to other users (mode 0640)" in sentence
    assert open_to_others(str(tmp_path / "none")) is None
