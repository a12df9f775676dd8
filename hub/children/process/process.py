"""A launched child process: lines over stdin and stdout, stderr to the log, and its termination."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
import errno
import os
import re
import shutil
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final, cast

import anyio
import structlog

from hub.children.process.process_tree import ProcessSupervisor, ProcessTree
from hub.children.process.supervised import Spawned, Started, Supervised, spawn
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.lines import Lines, LineSplitter, TruncatedLine
from hub.jsonrpc.peer_conduct import READ, LoopShare, PeerConduct
from hub.jsonrpc.pipes import Flow, PipeOutlet
from hub.jsonrpc.rated_log import ChildLog
from hub.launch.plan import LaunchPlan
from hub.system.tasks import OwnThread, in_own_thread

STDERR_LINE_LIMIT = 8 * 1024
STDERR_KEPT = 8
_FRAME = re.compile(rb"\s+at \S")
"""A line of a stack of Node or Java: the error itself is above all of them."""
CROWD = 256
"""The number of stderr lines in one chunk above which a large chunk is not read line by line."""
READ_OF_CROWD = 2048
"""About how many bytes at each end of such a chunk are read; the middle is only counted."""


class Stderr(asyncio.Protocol):
    """Reads and logs a child's stderr, and keeps its last lines; a flood takes little time.

    Reading pauses when it uses too much of the event loop's time (`pace`).
    """

    def __init__(self, log: ChildLog, pace: LoopShare) -> None:
        self._log = log
        self._pace = pace
        self._transport: asyncio.ReadTransport | None = None
        self._splitter = LineSplitter(STDERR_LINE_LIMIT)
        self._said: deque[bytes] = deque(maxlen=STDERR_KEPT)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports have this class, but every pipe that is read can be paused.
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        began = self._pace.clock()
        self._feed(data)
        self._pace.spend(READ + self._pace.clock() - began, len(data))
        rest = self._pace.rest()
        if rest and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(rest, self._read_on, self._transport)

    def _read_on(self, transport: asyncio.ReadTransport) -> None:
        if not transport.is_closing():
            transport.resume_reading()

    def _feed(self, chunk: bytes) -> None:
        if len(chunk) > 2 * READ_OF_CROWD and chunk.count(b"\n") > CROWD:
            ends = chunk.find(b"\n", READ_OF_CROWD) + 1 or len(chunk)
            begins = max(ends, chunk.rfind(b"\n", 0, -READ_OF_CROWD) + 1)
            self._take(self._splitter.feed(chunk[:ends]))
            self._log.leave_out(chunk.count(b"\n", ends, begins), begins - ends)
            chunk = chunk[begins:]
        self._take(self._splitter.feed(chunk))

    def connection_lost(self, exc: Exception | None) -> None:
        """Log the last line, and how much was left out."""
        self._take(self._splitter.finish())
        self._log.finish()

    def _take(self, lines: list[bytes]) -> None:
        self._said.extend(line for line in lines if line and not _FRAME.match(line))
        for number, line in enumerate(lines):
            if self._log.is_full:
                left = lines[number:]
                self._log.leave_out(len(left), sum(map(len, left)))
                return
            self._log.info("stderr", line=_text(line))

    @property
    def last_words(self) -> str:
        """The last lines of stderr, as one text."""
        return " | ".join(text for text in map(_text, self._said) if text)


def _text(line: bytes) -> str:
    if isinstance(line, TruncatedLine):
        return "(too long to show)"
    return line.decode("utf-8", "replace").rstrip()


log = structlog.stdlib.get_logger(__name__)


class Process:
    """A running child process: `lines` is its output, `outlet` its input."""

    outlet: PipeOutlet

    def __init__(
        self,
        server: str,
        private_directory: str | None,
        tree: ProcessTree,
        child_log: ChildLog | None = None,
    ) -> None:
        self.private_directory = private_directory
        self._tree = tree
        self.conduct = PeerConduct(server, child_log)
        self.lines = Lines(conduct=self.conduct)
        self._server = server
        self._stderr = Stderr(self.conduct.log, self.conduct.pace)
        self._exited = anyio.Event()
        self._running: Spawned | None = None
        self._stdin: PipeOutlet | None = None
        self._closing: list[Callable[[], None]] = [self.lines.close]

    async def begin(self, plan: LaunchPlan, env: dict[str, str]) -> None:
        """Run the plan's command in a session and process tree of its own. Raises: ChildError."""
        try:
            cwd = self.private_directory or plan.cwd
            running = self._running = await spawn(
                plan.argv, env=env, cwd=cwd, start=self._tree.start
            )
        except (OSError, ValueError) as exc:
            self.lines.close()
            raise ChildError(f"it cannot start: {_why(exc)}") from exc
        self._closing.append(when_ended(running.popen, self._has_exited))
        loop, flow = asyncio.get_running_loop(), Flow(self.lines.end_soon)
        stdin, _ = await loop.connect_write_pipe(lambda: flow, running.stdin.taken(loop))
        outlet = self.outlet = self._stdin = PipeOutlet(stdin, flow)
        self._closing.append(outlet.abort)
        said, _ = await loop.connect_read_pipe(lambda: self._stderr, running.stderr.taken(loop))
        self._closing.append(said.close)
        await loop.connect_read_pipe(lambda: self.lines, running.stdout.taken(loop))

    @property
    def pid(self) -> int | None:
        """The id of the process; None before its start."""
        return None if self._running is None else self._running.popen.pid

    def _has_exited(self) -> None:
        """Record the exit, and soon end the output, which another process may still hold open."""
        self._exited.set()
        self.lines.end_soon()

    def how_it_ended(self) -> str:
        """Return how the process ended; log its last stderr lines, which may hold secrets."""
        code = self._running.popen.returncode if self._running is not None else None
        if code is None:
            is_deaf = self._stdin is not None and self._stdin.gone
            how = f"closed its {'input' if is_deaf else 'output'}"
        else:
            how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        said = self._stderr.last_words
        if said:
            log.warning("last stderr lines", server=self._server, said=said[-1000:])
        return f"{how} (the hub's log has its last stderr lines)" if said else how

    async def next_line(self) -> bytes:
        """Return the next line, or a `TruncatedLine`. Raises: GoneError that says how it ended."""
        try:
            return await self.lines.next()
        except GoneError:
            if self.lines.failure is not None:
                raise
            with anyio.move_on_after(self._tree.graces.exit):
                await self._exited.wait()
            raise GoneError(self.how_it_ended()) from None

    async def end(self) -> None:
        """Close stdin, then end the process and all processes that it has started."""
        if self._stdin is not None:
            self._stdin.end()
        if self._running is not None:
            graces = self._tree.graces
            await self._tree.shutdown.until(self._exited.wait, graces.eof, graces.eof_at_end)
        await self._tree.end()
        if self._running is not None:
            with anyio.move_on_after(self._tree.graces.noticed):
                await self._exited.wait()
            self._running.close()
        for close in self._closing:
            close()


_HINTS: Final = {
    errno.EMFILE: "`ulimit -n`",
    errno.ENOENT: "the program in its first line may be gone; after a move, install it again",
    errno.EACCES: "it may not be run: `chmod +x`",
    errno.E2BIG: "`roots-hub plan` shows them; each may have 128 KiB, and so may each variable",
}
"""What to look at, by the error of the system."""


def _why(error: OSError | ValueError) -> str:
    said = getattr(error, "strerror", None) or str(error)
    hint = _HINTS.get(getattr(error, "errno", None) or 0)
    return f"{said} ({hint})" if hint else said


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def when_ended(process: Started, told: Callable[[], None]) -> Callable[[], None]:
    """Call `told` in the running loop once `process` has ended and its exit code is known.

    Return a function that stops the watch; calling it again does nothing.
    """
    loop = asyncio.get_running_loop()
    try:
        if isinstance(process, Supervised):
            handle = os.dup(process.fileno())  # the exit code comes a moment before its end
        else:
            handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or before 5.3
        return _by_thread(process, told)

    def stop() -> None:
        nonlocal handle
        if handle >= 0:
            loop.remove_reader(handle)
            os.close(handle)
            handle = -1

    def ended() -> None:
        if handle >= 0 and process.poll() is not None:
            stop()
            told()

    loop.add_reader(handle, ended)
    loop.call_soon(ended)  # nothing more is to be read if the exit came with the start
    return stop


def _by_thread(process: Started, told: Callable[[], None]) -> Callable[[], None]:
    is_watched = True

    def ended() -> None:
        if is_watched:
            told()

    def stop() -> None:
        nonlocal is_watched
        is_watched = False

    OwnThread(process.wait, f"exit of {process.pid}", ended)
    return stop


@asynccontextmanager
async def launch(
    server: str,
    plan: LaunchPlan,
    environment: Mapping[str, str],
    supervisor: ProcessSupervisor,
    child_log: ChildLog | None = None,
) -> AsyncGenerator[Process]:
    """Run `plan` with `plan.env` added to `environment` while the context lasts.

    A plan without a working directory gets an empty private one. The process leads a session of its
    own. At the end it is terminated with all processes it has started, whatever their session.

    Raises: ChildError if it cannot be started.
    """
    env = {**environment, **dict(plan.env)}
    own = supervisor.folders.folder() if plan.cwd is None else nullcontext()
    async with own as private:
        # The disk may hang: that may keep nobody else waiting.
        found = partial(_ensure_there, plan, env.get("PATH"), private or plan.cwd)
        await in_own_thread(found, f"looks for {server}")
        process = Process(server, private, ProcessTree(supervisor), child_log)
        try:
            await process.begin(plan, env)
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await process.end()


def _ensure_there(plan: LaunchPlan, path: str | None, cwd: str | None) -> None:
    if plan.cwd is not None and not Path(plan.cwd).is_dir():
        raise ChildError(
            "it cannot start: its `cwd` is not a directory (`roots-hub plan` shows it)"
        )
    if not _is_there(plan.argv[0], path, cwd):
        raise ChildError(f"it cannot start: {plan.no_command}")


def _is_there(command: str, path: str | None, cwd: str | None) -> bool:
    return shutil.which(command, path=path) is not None or bool(
        cwd and Path(cwd, command).is_file()
    )
