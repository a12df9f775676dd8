from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hub.system.atomic_file import replace_file
from hub.system.private_file import append_private, private_directory, read_private, secret_in


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
