"""Real processes: the hub's promise is that none outlives it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.children.process.process import STDERR_LINE_LIMIT, Process, Stderr, launch
from hub.children.process.process_tree import EndGraces, ProcessSupervisor, ProcessTree
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Notification
from hub.jsonrpc.peer_conduct import LoopShare
from hub.jsonrpc.rated_log import BESIDE, LINES, ChildLog
from hub.launch.plan import LaunchPlan
from hub.roots.roots import EMPTY
from hub.system.shutdown import Shutdown
from tests.kit.fakes import no_descriptor_free
from tests.kit.loops import BOTH, all_tasks_blocked

live = pytest.mark.live
# The lines of a process that never began are left open, which is reported when they are collected.
LEAVES_ITS_LINES = pytest.mark.filterwarnings(
    "ignore:.*MemoryObject.*Stream.__del__:pytest.PytestUnraisableExceptionWarning"
)
HERE = str(Path(__file__).parent)
ENVIRONMENT = {"PATH": os.environ["PATH"], "INHERITED": "yes"}
ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)\n"
STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
alive = os.open(sys.argv[1], os.O_WRONLY)
if os.fork() == 0:
    os.close(1)
    while True: signal.pause()
print("ready", flush=True)
while True: signal.pause()
"""
"""Ignores the end of its input and SIGTERM, and so does its own child; both hold a fifo open."""


@pytest.fixture(params=BOTH)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def plan(*argv: str, cwd: str | None = "/", env: tuple[tuple[str, str], ...] = ()) -> LaunchPlan:
    return LaunchPlan(argv=argv, env=env, cwd=cwd, roots=EMPTY, shown=argv)


def python(code: str, *arguments: str, cwd: str | None = "/") -> LaunchPlan:
    return plan(sys.executable, "-c", code, *arguments, cwd=cwd)


IN_A_HURRY = EndGraces(eof=0.05, term=0.05)
PATIENT = EndGraces(exit=10.0)
"""An exit code is waited for, however busy the machine is."""
OF_STUBBORN = replace(IN_A_HURRY, exit=10.0)
"""The same, for processes that are killed in the end."""


def exists(path: str | Path) -> bool:
    return Path(path).exists()


@asynccontextmanager
async def launched(planned: LaunchPlan, graces: EndGraces = PATIENT) -> AsyncGenerator[Process]:
    async with (
        ProcessSupervisor(Shutdown(), graces) as supervisor,
        launch("files", planned, ENVIRONMENT, supervisor) as process,
    ):
        yield process


def unlaunched() -> Process:
    return Process("files", None, ProcessTree(ProcessSupervisor(Shutdown())))


@asynccontextmanager
async def running(
    code: str, *arguments: str, cwd: str | None = "/", graces: EndGraces = PATIENT
) -> AsyncGenerator[Process]:
    with anyio.fail_after(20):
        async with launched(python(code, *arguments, cwd=cwd), graces) as process:
            yield process


async def test_a_disk_that_hangs_keeps_only_its_own_child_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, here = threading.Event(), threading.current_thread()

    def hang(directory: Path) -> bool:
        if directory == Path("/"):
            return is_dir(directory)
        assert threading.current_thread() is not here, "everything waits for it"
        return answers.wait(120)

    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", hang)
    with anyio.fail_after(60):
        async with ProcessSupervisor(Shutdown()) as supervisor, anyio.create_task_group() as tasks:

            async def start() -> None:
                async with launch("far", python("", cwd="/hangs"), ENVIRONMENT, supervisor):
                    pytest.fail("it cannot have been looked for")

            tasks.start_soon(start)
            await all_tasks_blocked()
            async with launch("near", python("print(1)"), ENVIRONMENT, supervisor) as process:
                assert await process.next_line() == b"1"
            tasks.cancel_scope.cancel()
    answers.set()


async def ending_of(code: str, graces: EndGraces = PATIENT) -> str:
    async with running(code, graces=graces) as process:
        with pytest.raises(GoneError) as caught:
            await process.next_line()
    return str(caught.value)


async def trouble_of(planned: LaunchPlan) -> str:
    with pytest.raises(ChildError) as caught:
        async with launched(planned):
            pytest.fail("it runs")
    return str(caught.value)


class Alive:
    """A fifo that processes hold open: readable to its end when the last of them is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def all_gone(self) -> None:
        with anyio.fail_after(20):
            await anyio.wait_readable(self._file)
        assert os.read(self._file, 1) == b""
        os.close(self._file)


@live
async def test_a_process_is_spoken_to_in_lines() -> None:
    async with running(ECHO) as process:
        await process.outlet.send(Notification("hello", {}))
        assert await process.next_line() == b'{"jsonrpc":"2.0","method":"hello"}'


@live
async def test_a_process_gets_the_plans_environment_on_top_of_the_inherited_one() -> None:
    code = "import os; print(os.environ['INHERITED'], os.environ['OWN'], sorted(os.environ)[:2])"
    planned = plan(sys.executable, "-c", code, env=(("OWN", "a b\nc"),))
    with anyio.fail_after(20):
        async with launched(planned) as process:
            assert await process.next_line() == b"yes a b"


@live
async def test_an_argument_arrives_unchanged(tmp_path: Path) -> None:
    odd = f"{tmp_path}/a b'\"\n$HOME*"
    async with running("import sys; print(ascii(sys.argv[1:]))", odd) as process:
        assert await process.next_line() == ascii([odd]).encode()


@live
async def test_a_process_runs_in_the_plans_directory(tmp_path: Path) -> None:
    async with running("import os; print(os.getcwd())", cwd=str(tmp_path)) as process:
        assert await process.next_line() == str(tmp_path).encode()
        assert process.private_directory is None
    assert exists(tmp_path)


@live
async def test_a_process_without_a_directory_gets_an_empty_one_that_goes_with_it() -> None:
    code = "import os; print(os.getcwd(), os.listdir()); open('left', 'w').close()"
    async with running(code, cwd=None) as process:
        private = process.private_directory
        assert private is not None
        assert await process.next_line() == f"{private} []".encode()
        with pytest.raises(GoneError):
            await process.next_line()
    assert not exists(private)


@live
async def test_a_process_that_ends_says_how() -> None:
    assert await ending_of("import sys; sys.exit(3)") == "exited with code 3"
    assert await ending_of("pass") == "exited with code 0"
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert await ending_of(killed) == "was ended by SIGKILL"
    realtime = f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 3})"
    assert await ending_of(realtime) == f"was ended by signal {signal.SIGRTMIN + 3}"


@live
async def test_a_process_that_only_closes_its_output_is_not_waited_for() -> None:
    code = "import os, sys; os.close(1); sys.stdin.read()"
    assert await ending_of(code, EndGraces(exit=0.001)) == "closed its output"


@live
async def test_a_process_that_reads_no_more_is_ended_after_what_it_still_says() -> None:
    """No further call could reach it: it is started anew for that."""
    code = "import os, time; os.close(0); print('last', flush=True); time.sleep(3600)"
    async with running(code, graces=replace(IN_A_HURRY, exit=0.001)) as process:
        assert await process.next_line() == b"last"
        with anyio.move_on_after(0.1), suppress(GoneError):  # not every loop notices it before
            await process.outlet.send(Notification("a", {}))
        with pytest.raises(GoneError, match="closed its input"):
            await process.next_line()


@live
async def test_stderr_of_a_process_goes_only_to_the_log() -> None:
    code = f"""
import sys
for n in range(7): print("line", n, file=sys.stderr)
print("x" * {STDERR_LINE_LIMIT + 1}, file=sys.stderr)
sys.stderr.buffer.write(b"caf\\xe9\\n"); sys.stderr.flush()
sys.stdin.read()
"""
    with capture_logs() as logs:
        async with running(code) as process:
            with anyio.fail_after(60):
                while not any("caf" in str(entry.get("line")) for entry in logs):
                    await all_tasks_blocked()
            said = process.how_it_ended()
    lines = [entry["line"] for entry in logs if entry["event"] == "stderr"]
    assert lines == [*(f"line {n}" for n in range(7)), "(too long to show)", "caf\ufffd"]
    assert {entry["server"] for entry in logs} == {"files"}
    assert said == "closed its output (the hub's log has its last stderr lines)"
    last = [entry["said"] for entry in logs if entry["event"] == "last stderr lines"]
    assert last[0].startswith("line 1 | line 2 | ")
    assert last[0].endswith(" | line 6 | (too long to show) | caf\ufffd")


@live
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
async def test_the_last_words_of_node_have_its_error(tmp_path: Path) -> None:
    code = f"""
import os
os.execvp("node", ["node", "-e", "require('{tmp_path}/dist/index.js')"])
"""
    with capture_logs() as logs:
        async with running(code) as process:
            with anyio.fail_after(60), pytest.raises(GoneError):
                await process.next_line()
    (last,) = (entry["said"] for entry in logs if entry["event"] == "last stderr lines")
    assert f"Error: Cannot find module '{tmp_path}/dist/index.js'" in last


@live
async def test_last_words_need_no_end_of_line() -> None:
    code = "import os, sys; os.write(2, b'said\\nboom'); os.close(2); sys.stdin.read()"
    with capture_logs() as logs:
        async with running(code) as process:
            with anyio.fail_after(60):
                while not any(entry.get("line") == "boom" for entry in logs):
                    await all_tasks_blocked()
            process.how_it_ended()
    assert "said | boom" in [entry.get("said") for entry in logs]


@live
async def test_a_process_ends_when_its_input_does() -> None:
    async with running(ECHO) as process:
        await process.outlet.send(Notification("hello", {}))
        await process.next_line()
    assert process.how_it_ended() == "exited with code 0"


@live
async def test_a_process_that_ignores_the_end_of_its_input_is_asked_to_end() -> None:
    code = "import signal; print('x', flush=True); signal.pause()"
    async with running(code, graces=IN_A_HURRY) as process:
        await process.next_line()
    assert process.how_it_ended() == "was ended by SIGTERM"


@live
async def test_a_whole_group_that_refuses_to_end_is_ended(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "alive")
    async with running(STUBBORN, alive.path, graces=IN_A_HURRY) as process:
        assert await process.next_line() == b"ready"
    assert process.how_it_ended() == "was ended by SIGKILL"
    await alive.all_gone()


@live
async def test_a_grandchild_whose_parent_has_exited_is_ended_too(tmp_path: Path) -> None:
    code = STUBBORN.replace("while True: signal.pause()\n", "sys.exit(0)\n").replace(
        "sys.exit(0)", "while True: signal.pause()", 1
    )
    alive = Alive(tmp_path / "alive")
    async with running(code, alive.path, graces=OF_STUBBORN) as process:
        assert await process.next_line() == b"ready"
        with pytest.raises(GoneError, match="exited with code 0"):
            await process.next_line()
    await alive.all_gone()


@live
async def test_a_process_is_ended_when_its_owner_is_cancelled(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "alive")
    with anyio.CancelScope() as scope:
        async with running(STUBBORN, alive.path, graces=IN_A_HURRY) as process:
            await process.next_line()
            scope.cancel()
            await anyio.sleep_forever()
    await alive.all_gone()


@live
async def test_a_process_that_does_not_read_makes_its_writer_wait() -> None:
    code = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.readline(1)"
    code += "; input_ = sys.stdin.readline(); print(len(input_), flush=True)"
    async with running("import time, sys\n" + code) as process:
        await process.next_line()
        await process.outlet.send(Notification("n", {"text": "x" * 3_000_000}))
        line = await process.next_line()
        assert line is not None
        assert int(line) > 3_000_000


@LEAVES_ITS_LINES
async def test_a_command_that_cannot_start_without_free_descriptors_names_the_limit() -> None:
    with no_descriptor_free():
        trouble = await trouble_of(plan("sh"))
    assert trouble == "it cannot start: Too many open files (`ulimit -n`)"
    gc.collect()


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (("no-such-command",), "/", "there is no command 'no-such-command' on the PATH"),
        (("/no/such/command",), "/", "there is no command '/no/such/command'"),
        (("sh",), "/no/such/directory", "its `cwd` is not a directory (`roots-hub plan` shows it)"),
        (("sh", "a\0b"), "/", "embedded null byte"),
        (
            ("sh", "x" * 200_000),
            "/",
            "Argument list too long (`roots-hub plan` shows them; each may have 128 KiB, and so may"
            " each variable)",
        ),
        (("test_spawn.py",), HERE, "No such file or directory"),
        ((f"{HERE}/test_spawn.py",), "/", "Permission denied (it may not be run: `chmod +x`)"),
    ],
)
@LEAVES_ITS_LINES
async def test_a_command_that_cannot_run_says_why(
    argv: tuple[str, ...], cwd: str, said: str
) -> None:
    trouble = await trouble_of(plan(*argv, cwd=cwd))
    assert trouble.startswith("it cannot start: ")
    assert said in trouble
    gc.collect()


async def test_a_command_that_cannot_run_is_named_as_the_operator_wrote_it() -> None:
    secret = replace(plan("/s3cret/server"), shown=("${TOOLS}/server",))
    said = "it cannot start: there is no command '${TOOLS}/server'"
    assert await trouble_of(secret) == said


@LEAVES_ITS_LINES
async def test_a_script_without_the_program_that_runs_it_is_to_be_installed_again(
    tmp_path: Path,
) -> None:
    moved = tmp_path / "server"
    moved.write_text("#!/gone/venv/bin/python\n")
    moved.chmod(0o700)
    assert (await trouble_of(plan(str(moved)))).endswith("after a move, install it again)")
    gc.collect()


@LEAVES_ITS_LINES
async def test_a_command_that_the_system_refuses_is_not_named(tmp_path: Path) -> None:
    secret = tmp_path / "s3cret"
    secret.write_text("no program")
    secret.chmod(0o700)
    assert "s3cret" not in await trouble_of(plan(str(secret), "--key=s3cret"))
    gc.collect()


async def test_a_private_directory_goes_with_a_process_that_does_not_start() -> None:
    async with ProcessSupervisor(Shutdown()) as supervisor:
        with pytest.raises(ChildError, match="no command"):
            async with launch("files", plan("no-such-command", cwd=None), ENVIRONMENT, supervisor):
                pytest.fail("there is no such command")
        made = supervisor.folders.top
        assert made is not None
        assert os.listdir(made) == []  # noqa: PTH208 - names, not paths
    assert not exists(made)


async def test_ending_a_process_that_was_not_started_does_nothing() -> None:
    process = unlaunched()
    await process.end()
    assert process.how_it_ended() == "closed its output"
    process.lines.close()


@live
async def test_the_error_of_an_ended_process_does_not_show_its_stderr() -> None:
    code = """
import sys
print("the key is s3cret", file=sys.stderr, flush=True)
sys.stdin.readline()
sys.exit(4)
"""
    with capture_logs() as logs:
        async with running(code) as process:
            with anyio.fail_after(60):
                while not any(entry["event"] == "stderr" for entry in logs):
                    await all_tasks_blocked()
            await process.outlet.send(Notification("go", {}))
            with pytest.raises(GoneError) as caught:
                await process.next_line()
    assert str(caught.value) == "exited with code 4 (the hub's log has its last stderr lines)"
    last = [
        (entry["server"], entry["said"]) for entry in logs if entry["event"] == "last stderr lines"
    ]
    assert last == [("files", "the key is s3cret")]


HELD = """
import os, subprocess, sys
print("the last word", flush=True)
subprocess.Popen(["/bin/sleep", "3600"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os._exit(3)
"""
"""Ends, and leaves its output to a process that it has started."""


@live
async def test_the_output_of_an_exited_process_ends_although_another_process_has_it_open() -> None:
    async with running(HELD) as process:
        assert await process.next_line() == b"the last word"
        with pytest.raises(GoneError, match="exited with code 3"):
            await process.next_line()


FLOOD = """
import os, sys
line = sys.argv[1].encode() + b"\\n"
while True: os.write(int(sys.argv[2]), line * (4096 // len(line)))
"""


@live
async def test_a_process_that_writes_too_many_useless_lines_is_ended_with_the_reason() -> None:
    async with running(FLOOD, "", "1", graces=OF_STUBBORN) as process:
        with pytest.raises(GoneError, match="the hub ended it because it misbehaved"):
            await process.next_line()


@live
async def test_a_flood_on_stderr_is_read_at_the_limited_rate() -> None:
    with capture_logs() as logs:
        async with running(FLOOD, "said", "2", graces=OF_STUBBORN) as process:
            while not process.conduct.log.is_full:  # noqa: ASYNC110 - nobody tells of it
                await anyio.sleep(0.01)
    assert len(logs) < 2 * LINES
    assert logs[-1]["event"] == "not all of it is logged"


def test_each_line_is_logged_and_the_last_ones_are_kept() -> None:
    said = Stderr(ChildLog("files"), LoopShare(lambda: 0.0))
    with capture_logs() as logs:
        said.data_received(b"one\ntw")
        said.data_received(b"o\n" + b"x" * (STDERR_LINE_LIMIT + 1) + b"\n")
        said.data_received(b"")
        said.data_received(b"caf\xe9")
        said.connection_lost(None)
    lines = ["one", "two", "(too long to show)", "caf\N{REPLACEMENT CHARACTER}"]
    assert [entry["line"] for entry in logs] == lines
    assert {entry["server"] for entry in logs} == {"files"}
    assert said.last_words == " | ".join(lines)


def test_of_a_flood_only_how_much_it_was_is_logged() -> None:
    said = Stderr(ChildLog("files", lambda: 100.0), LoopShare(lambda: 0.0))
    with capture_logs() as logs:
        for number in range(10):
            said.data_received(
                b"".join(b"%d\n" % line for line in range(number * 100, number * 100 + 100))
            )
        said.connection_lost(None)
    lines = [entry["line"] for entry in logs if entry["event"] == "stderr"]
    assert lines == [*map(str, range(LINES))]
    assert [entry["lines"] for entry in logs if "bytes" in entry] == [1000 - LINES]
    assert said.last_words == "992 | 993 | 994 | 995 | 996 | 997 | 998 | 999"


def test_of_many_lines_at_once_the_first_are_logged_and_the_last_are_kept() -> None:
    said = Stderr(ChildLog("files", lambda: 100.0), LoopShare(lambda: 0.0))
    chunk = b"".join(b"%d\n" % line for line in range(20_000))
    with capture_logs() as logs:
        said.data_received(b"begun ")
        said.data_received(chunk + b"cut o")
        said.data_received(b"ff\n")
        said.connection_lost(None)
    lines = [entry["line"] for entry in logs if entry["event"] == "stderr"]
    assert lines == ["begun 0", *map(str, range(1, LINES))]
    [left] = [entry for entry in logs if "bytes" in entry]
    assert left["lines"] == 20_001 - LINES
    assert 0 < left["bytes"] <= len(chunk) + 20_001 * BESIDE
    assert said.last_words == "19993 | 19994 | 19995 | 19996 | 19997 | 19998 | 19999 | cut off"
