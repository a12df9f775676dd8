from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from threading import Timer

import pytest

from hub.children.process import watchdog
from hub.children.process.watchdog import (
    VARIABLE,
    Belongings,
    Mark,
    Table,
    Termination,
    child_by_limits,
    child_of,
    end,
    look,
    row,
    send,
    start_of,
)
from tests.kit.fakes import no_descriptor_free

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not watchdog.HAS_PROC, reason="processes are told by /proc"),
]

MARK = Mark(1 << 47 | secrets.randbits(47), 7)
"""Of this process alone: other runs of these tests end all that has a mark of theirs."""
ASLEEP = "import signal, time; signal.signal(signal.SIGTERM, {}); print(flush=True); time.sleep(60)"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Generator[Start]:
    """Start Python programs that are ended with the test."""
    begun: list[subprocess.Popen[str]] = []

    def begin(code: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", "-c", code, *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(  # noqa: S603 - this Python
            command, env=variables, start_new_session=True, stdout=pipe, text=True
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def asleep(
    start: Start, env: dict[str, str] | None = None, *, stubborn: bool = False
) -> subprocess.Popen[str]:
    process = start(
        ASLEEP.format("signal.SIG_IGN" if stubborn else "signal.SIG_DFL"), **(env or {})
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def now() -> int:
    started = start_of(os.getpid())
    assert started is not None
    return started


def here() -> Table:
    return look(MARK.hub, now())


def test_a_mark_is_found_in_the_environment(start: Start) -> None:
    pid = asleep(start, {VARIABLE: MARK.text}).pid
    assert child_of(pid, MARK.hub) == MARK.child
    hub = f"{MARK.hub:x}"
    others = (hub[:-1], f"{hub}d", hub[1:])
    assert not any(child_of(pid, int(other, 16)) for other in others)
    made_up, other = {VARIABLE: f"{hub}-made up"}, {"OTHER": f"{VARIABLE}={MARK.text}"}
    assert not any(child_of(asleep(start, env).pid, MARK.hub) for env in (made_up, other))


@pytest.mark.parametrize(
    ("limits", "child"),
    [
        (b"soft hard", 0),
        (b"unlimited            unlimited            us", 0),
        (b"2741                 2748                 us", 7),
        (b"2740                 2748                 us", 8),
        (b"2748                 2748                 us", 0),
        (b"2741                 2749                 us", 0),
    ],
)
def test_a_mark_is_found_in_the_limits(limits: bytes, child: int) -> None:
    text = b"Limit  Soft  Hard  Units\nMax realtime timeout  " + limits + b"\n"
    assert child_by_limits(text, 2748) == child
    assert child_by_limits(b"", 2748) == 0


def test_a_zombie_counts_as_ended(start: Start) -> None:
    process = start("print(end='')")
    assert process.stdout is not None
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert row(process.pid) is None
    process.wait()
    assert start_of(process.pid) is None


def test_a_process_that_cannot_be_looked_up_is_not_taken_for_ended(start: Start) -> None:
    process = asleep(start, {VARIABLE: MARK.text})
    termination = Termination(MARK.child, {})
    termination.signal_all(here(), 0)
    for ask in (here, lambda: start_of(process.pid), lambda: send(process.pid, 1, 0)):
        with no_descriptor_free(), pytest.raises(OSError, match="Too many open files"):
            ask()
    with no_descriptor_free():
        assert not termination.prune()
    assert set(termination.left) == {process.pid}


def test_a_process_is_read_whatever_its_name(tmp_path: Path) -> None:
    link = tmp_path / ") Z 1 (1)"
    link.symlink_to("/bin/sleep")
    with subprocess.Popen([link, "60"]) as process:  # noqa: S603 - a symbolic link to sleep
        found, comm = row(process.pid), Path(f"/proc/{process.pid}/comm").read_text()
        process.kill()
    assert comm == ") Z 1 (1)\n"
    assert found is not None
    assert found.parent == os.getpid()


def test_all_that_descends_from_a_marked_one_is_found(start: Start) -> None:
    code = "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:], env={}, "
    code += "start_new_session=True); print(p.pid, flush=True); time.sleep(60)"
    sleeper = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    process = start(code, *sleeper, **{VARIABLE: MARK.text})
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    stranger = asleep(start).pid
    found = here().find(MARK.child, {})
    assert set(found) == {process.pid, grandchild}
    assert stranger not in found
    assert end(MARK.hub, now(), {}, 60)
    assert start_of(grandchild) is None


def test_a_leader_is_found_without_a_mark_unless_another_has_its_id(start: Start) -> None:
    pid = asleep(start).pid
    started = start_of(pid)
    assert started is not None
    assert here().find(MARK.child, {pid: started}) == {pid: started}
    assert here().find(MARK.child, {pid: started + 1}) == {}


def test_no_other_process_is_signalled(start: Start) -> None:
    process = asleep(start)
    started = start_of(process.pid)
    assert started is not None
    send(process.pid, started + 1, signal.SIGKILL)
    assert start_of(process.pid) == started
    send(process.pid, started, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    send(process.pid, started, signal.SIGKILL)


def test_an_older_kernel_is_asked_less_exactly(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    process = asleep(start)
    started = start_of(process.pid)
    assert started is not None
    send(process.pid, started + 1, signal.SIGKILL)
    assert start_of(process.pid) == started
    send(process.pid, started, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL


def test_a_process_that_ignores_sigterm_is_killed(start: Start) -> None:
    process = asleep(start, {VARIABLE: MARK.text}, stubborn=True)
    assert end(MARK.hub, now(), {}, 0.05)
    assert process.wait(60) == -signal.SIGKILL


def test_a_process_that_is_there_when_patience_ends_is_given_up(start: Start) -> None:
    process = asleep(start, {VARIABLE: MARK.text}, stubborn=True)
    assert not end(MARK.hub, now(), {}, 0, 0), "it was not waited for"
    assert process.wait(60) == -signal.SIGKILL


def test_a_watchdog_ends_children_once_a_descriptor_to_find_them_is_free(start: Start) -> None:
    process, since = asleep(start, {VARIABLE: MARK.text}), now()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    freed = Timer(0.1, resource.setrlimit, (resource.RLIMIT_NOFILE, limit))
    with no_descriptor_free():
        freed.start()
        assert end(MARK.hub, since, {}, 60)
        freed.join()
    assert process.wait(60) == -signal.SIGTERM


def test_a_watchdog_that_never_gets_a_descriptor_gives_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SCARCE", 0.05)
    process, since = asleep(start, {VARIABLE: MARK.text}), now()
    with no_descriptor_free():
        assert not end(MARK.hub, since, {}, 0.05, 0.05)
    assert start_of(process.pid) is not None


def test_without_a_table_of_processes_a_group_is_ended(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "HAS_PROC", False)
    process = asleep(start, stubborn=True)
    assert not end(MARK.hub, 0, {process.pid: 0}, 0.05, 0.05), (
        "it is there until its parent asks for its end"
    )
    assert process.wait(60) == -signal.SIGKILL
    assert end(MARK.hub, 0, {process.pid: 0}, 0.05)


def test_the_hub_reports_started_and_ended_children_and_their_folders() -> None:
    belongings = Belongings()
    for line in (b"+ 5 100", b"+ 6 101", b"+ /tmp/a b", b"+ /tmp/c", b"- 5 100", b"- 9 9"):
        belongings.update(line + b"\n")
    belongings.update(b"- /tmp/c\n")
    belongings.update(b"+ C:\\Users\\a b\n")
    folders = {b"/tmp/a b", b"C:\\Users\\a b"}
    assert (belongings.leaders, belongings.folders) == ({6: 101}, folders)


def test_the_program_removes_the_folders_of_a_lost_hub_and_nothing_that_links_lead_to(
    tmp_path: Path,
) -> None:
    made, other, given_up = tmp_path / "made", tmp_path / "other", tmp_path / "given up"
    for folder in (made, other, given_up):
        (folder / "in").mkdir(parents=True)
    (made / "link").symlink_to(other)
    (tmp_path / "swapped").symlink_to(other)
    told = [f"+ {made}", f"+ {tmp_path}/swapped", f"+ {given_up}", f"- {given_up}"]
    command = [sys.executable, "-I", "-S", "-B", watchdog.__file__, str(MARK.hub), str(now())]
    lines = "".join(f"{line}\n" for line in told)
    subprocess.run(command, input=lines.encode(), env={}, check=True, timeout=60)  # noqa: S603 - ours
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given up", "other", "swapped"]
    assert (other / "in").is_dir()


def test_the_program_ends_only_the_children_of_a_lost_hub(start: Start) -> None:
    told, marked, other = asleep(start), asleep(start, {VARIABLE: MARK.text}), asleep(start)
    command = [sys.executable, "-I", "-S", "-B", watchdog.__file__, str(MARK.hub), str(now())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={}) as program:  # noqa: S603 - ours
        assert program.stdin is not None
        program.stdin.write(f"+ {told.pid} {start_of(told.pid)}\n+ 1 ".encode())
        program.stdin.flush()
        program.stdin.close()
        assert program.wait(60) == 0
    assert told.wait(60) == marked.wait(60) == -signal.SIGTERM
    assert start_of(other.pid) is not None
