from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.audit.log_file import audit_log
from hub.audit.open_file import UnfitFileError, open_to_add
from tests.audit.test_record import REFUSAL

NOBODY = 65534


@pytest.fixture(autouse=True)
def open_umask() -> Generator[None]:
    """Nothing but the hub's own word keeps others away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


def test_a_new_file_and_the_rotated_one_have_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        with audit_log(path, max_bytes=1) as audit:
            audit.write(REFUSAL)
    assert mode(path) == mode(tmp_path / "audit.jsonl.1") == 0o600


def test_a_file_that_others_may_read_is_taken_from_them_and_the_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"{}\n")
    path.chmod(0o644)
    with capture_logs() as logs, audit_log(path) as audit:
        audit.write(REFUSAL)
    assert mode(path) == 0o600
    assert [(entry["event"], entry["mode_was"]) for entry in logs] == [
        ("file could be accessed by other users: set to mode 0600", "644")
    ]
    assert path.read_bytes().startswith(b"{}\n")


@pytest.mark.parametrize("there", [True, False])
def test_no_link_is_followed(tmp_path: Path, *, there: bool) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "audit.jsonl"
    if there:
        elsewhere.write_bytes(b"kept")
    path.symlink_to(elsewhere)
    with pytest.raises(UnfitFileError, match="it is a symbolic link"):
        audit_log(path)
    assert elsewhere.exists() is there
    assert not there or elsewhere.read_bytes() == b"kept"


def test_a_link_that_comes_later_is_not_followed_either(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "audit.jsonl"
    with capture_logs() as logs, audit_log(path) as audit:
        path.unlink()
        path.symlink_to(elsewhere)
        audit.write(REFUSAL)
    assert not elsewhere.exists()
    told = [(entry["event"], entry["file"], entry["lines"]) for entry in logs]
    assert told == [("audit lines lost", str(path), 1)]


def test_a_link_with_the_name_of_the_rotated_file_is_replaced(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "audit.jsonl"
    elsewhere.write_bytes(b"kept")
    (tmp_path / "audit.jsonl.1").symlink_to(elsewhere)
    for _ in range(2):
        with audit_log(path, max_bytes=1) as audit:
            audit.write(REFUSAL)
    assert elsewhere.read_bytes() == b"kept"
    assert not (tmp_path / "audit.jsonl.1").is_symlink()


def test_a_file_with_hard_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o600)
    (tmp_path / "other").hardlink_to(path)
    with pytest.raises(UnfitFileError, match="hard link"):
        audit_log(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away: run it as root")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o600)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(UnfitFileError, match="another user"):
        open_to_add(path)


def test_a_directory_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with audit_log(tmp_path / "link/audit.jsonl") as audit:
        audit.write(REFUSAL)
    assert (tmp_path / "real/audit.jsonl").stat().st_size
