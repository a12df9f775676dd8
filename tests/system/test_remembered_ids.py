from __future__ import annotations

import resource
import signal
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.system.sealing import RememberedIds
from tests.kit.fakes import FakeClock


def test_an_id_is_remembered_until_it_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    path = tmp_path / "state" / "ids"
    first = RememberedIds(clock, path)
    first.add("a", clock() + 10)
    first.add("a", clock() + 10)
    assert first.has("a", clock() + 10)
    assert not first.has("b", clock() + 10)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"a" not in path.read_bytes().split()
    assert path.read_bytes().count(b"\n") == 1
    after = RememberedIds(clock, path)
    assert after.has("a", clock() + 10)
    clock.now += 20
    assert len(RememberedIds(clock, path)) == 0
    after.add("late", clock() - 1)
    assert not after.has("late", clock() + 5)
    first.close()


def test_it_works_without_a_file() -> None:
    clock = FakeClock()
    ids = RememberedIds(clock)
    ids.add("a", clock() + 10)
    assert ids.has("a", clock() + 10)


def test_when_there_are_too_many_all_that_expire_as_early_count(tmp_path: Path) -> None:
    clock = FakeClock()
    ids = RememberedIds(clock, tmp_path / "ids", most=64)
    until = {str(number): clock() + 1000 + number for number in range(1000)}
    for id_, end in until.items():
        ids.add(id_, end)
        assert len(ids) <= 64
    again = RememberedIds(clock, tmp_path / "ids", most=64)
    for id_, end in until.items():
        assert ids.has(id_, end)
        assert again.has(id_, end)
    assert not again.has("other", clock() + 3000)
    assert (tmp_path / "ids").stat().st_size < 2 * 64 * 64
    ids.close()


def test_expired_ids_make_room_without_harm_to_others() -> None:
    clock = FakeClock()
    ids = RememberedIds(clock, most=16)
    for number in range(16):
        ids.add(str(number), clock() + 5)
    clock.now += 10
    ids.add("new", clock() + 5)
    assert len(ids) == 1
    assert not ids.has("other", clock() + 1)


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"12", b"12 zz", b"9" * 400, b"-1 -", b"1 " + b"a" * 32]
)
def test_a_damaged_line_says_nothing(tmp_path: Path, line: bytes) -> None:
    clock = FakeClock()
    first = RememberedIds(clock, tmp_path / "ids")
    first.add("a", clock() + 10)
    with (tmp_path / "ids").open("ab") as file:
        file.write(line + b"\n")
    first.add("b", clock() + 10)
    first.close()
    again = RememberedIds(clock, tmp_path / "ids")
    assert again.has("a", clock() + 10)
    assert again.has("b", clock() + 10)
    assert not again.has("c", clock() + 10)


def test_a_file_of_others_is_told_once_and_not_used(tmp_path: Path) -> None:
    clock = FakeClock()
    path = tmp_path / "ids"
    path.write_text("")
    path.chmod(0o644)
    with capture_logs() as logs:
        ids = RememberedIds(clock, path, what="ended sessions")
        ids.add("a", clock() + 10)
        ids.add("b", clock() + 10)
    (line,) = logs
    assert (line["of"], line["error"]) == ("ended sessions", "other users may access it")
    assert ids.has("b", clock() + 10)
    assert path.read_text() == ""


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    clock = FakeClock()
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "ids").symlink_to(tmp_path / "victim")
    with capture_logs() as logs:
        RememberedIds(clock, tmp_path / "ids").add("a", clock() + 10)
    assert len(logs) == 1
    assert (tmp_path / "victim").read_text() == "kept"


def test_a_directory_that_is_none_is_told(tmp_path: Path) -> None:
    clock = FakeClock()
    (tmp_path / "file").write_text("")
    with capture_logs() as logs:
        ids = RememberedIds(clock, tmp_path / "file" / "ids")
        ids.add("a", clock() + 10)
    assert len(logs) == 1
    assert ids.has("a", clock() + 10)


def test_an_id_behind_a_line_that_was_cut_off_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    first = RememberedIds(lambda: 0.0, path)
    first.add("a", 100)
    first.add("b", 100)
    first.close()
    path.write_bytes(path.read_bytes()[:-9])  # as a full disk leaves it
    second = RememberedIds(lambda: 0.0, path)
    second.add("c", 100)
    second.close()
    third = RememberedIds(lambda: 0.0, path)
    assert [third.has(id_, 100) for id_ in "abc"] == [True, False, True]


def test_a_line_that_a_full_disk_cuts_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    ids = RememberedIds(lambda: 0.0, path)
    ids.add("a", 100)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 9, limits[1]))
    try:
        with capture_logs() as logs:
            ids.add("b", 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert [line["error"] for line in logs] == ["No space left on device"]
    assert ids.has("b", 100)
