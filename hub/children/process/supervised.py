"""Starts processes on pipes; the hub's side of subreapers, fork server and watchdog.

The event loops' own subprocess support is not used. Loops differ: some use sockets in place of
pipes, which a program cannot open as `/dev/stderr`; some let the program inherit descriptors that
are not its own; and all need one more turn for each message.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - loops differ in who closes what they watch
import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio
from msgspec import Struct

from hub.children.process import watchdog
from hub.children.process.subreaper import END_NOW

ChildPipes: TypeAlias = tuple[int, int, int]
"""The descriptors that a process gets as stdin, stdout and stderr."""


class End:
    """An end of a pipe, closed exactly once: by the transport that took it, else by `close`."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_ours = True

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        """Close the pipe end, unless it is closed or a transport closes it."""
        if self._is_ours:
            self._is_ours = False
            os.close(self._number)

    def taken(self, loop: asyncio.AbstractEventLoop) -> End:
        """Return this end for a transport of `loop` to keep and close.

        Loops on libuv close the descriptor by number, and call `close`, too. By then the number may
        belong to another thread.
        """
        self._is_ours = isinstance(loop, asyncio.BaseEventLoop)
        return self


class Started(Protocol):
    """A process that was started, whichever process is its parent."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Return the exit code as `subprocess` defines it; None while it is not known."""
        ...

    def wait(self) -> int | None:
        """Wait for the process to end, and return its exit code."""
        ...


Start: TypeAlias = Callable[
    [Sequence[str], Mapping[str, str], str | None, ChildPipes], Awaitable[Started]
]
"""Starts a process with arguments, environment, working directory and streams.

Raises: OSError or ValueError if it cannot be started.
"""


class Spawned(Struct, frozen=True):
    """A process that was started, and the hub's ends of its pipes."""

    popen: Started
    stdin: End
    stdout: End
    stderr: End

    def close(self) -> None:
        """Close the ends that no transport took."""
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()


def popen(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, streams: ChildPipes
) -> subprocess.Popen[bytes]:
    """Start a child of this process, in a session of its own. Raises: OSError, ValueError."""
    stdin, stdout, stderr = streams
    return subprocess.Popen(  # noqa: S603 - the operator configured the command
        argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )


async def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, start: Start
) -> Spawned:
    """Start a process on pipes; return it with the hub's ends. Raises: OSError, ValueError."""
    with ExitStack() as theirs, ExitStack() as ours:
        stdin, our_stdin = _pipe(theirs, ours)
        our_stdout, stdout = _pipe(ours, theirs)
        our_stderr, stderr = _pipe(ours, theirs)
        started = await start(argv, env, cwd, (stdin, stdout, stderr))
        ours.pop_all()  # they are closed here only if the start fails
    return Spawned(started, End(our_stdin), End(our_stdout), End(our_stderr))


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Return the two ends of a new pipe, which these stacks close."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


START_PATIENCE: Final = 10.0
"""Seconds in which a subreaper must report that the process has started or cannot be started."""
END_PATIENCE: Final = 2.0
"""Seconds for a subreaper to end what is left of its child."""
_SAID_BYTES: Final = 256
_CONTINUE: Final = getattr(signal, "SIGCONT", None)
"""None on Windows, where no process can stop another."""


class LostForkServerError(Exception):
    """The fork server, or the subreaper it has forked, has ended."""


class Supervised:
    """A process that a subreaper has started; `subreaper` is the subreaper's process id."""

    def __init__(self, control: socket.socket, pid: int, subreaper: int, said: bytes) -> None:
        self.pid = pid
        self.subreaper = subreaper
        self.returncode: int | None = None
        self._control = control
        self._said = said

    def fileno(self) -> int:
        """Return the descriptor that is readable when `poll` may have news."""
        return self._control.fileno()

    def poll(self) -> int | None:
        """Return the exit code; None while it is not known.

        If the subreaper was killed, the process counts as killed: it is killed, too.
        """
        self._look()  # the exit may have come with the start
        if self.returncode is None and self._control.fileno() >= 0:
            with suppress(BlockingIOError):
                self._hear()
        return self.returncode

    def wait(self) -> int | None:
        """Wait for the process to end, and return its exit code."""
        with suppress(ValueError):  # closed meanwhile: nobody needs the exit code
            while self.poll() is None:
                news = select.poll()  # `select` takes no descriptor above 1023
                news.register(self._control, select.POLLIN)
                news.poll()
        return self.returncode

    async def finish(self) -> None:
        """Have the subreaper kill all that is left of the process, and wait for that."""
        with self._control:
            with suppress(OSError):
                self._control.send(END_NOW)
            with anyio.move_on_after(END_PATIENCE):
                await self._until_closed()

    async def _until_closed(self) -> None:
        while True:
            await anyio.wait_readable(self._control)
            with suppress(BlockingIOError):  # who watches for the end has read it, see `when_ended`
                if not self._hear():
                    return

    def _hear(self) -> bool:
        """Read the subreaper's messages; return False when it has closed the socket.

        Raises: BlockingIOError if there is nothing to read.
        """
        more = _read(self._control)
        self._said += more
        self._look()
        if self.returncode is None and not more:
            self.returncode = -int(signal.SIGKILL)
        return bool(more)

    def _look(self) -> None:
        """Take the exit code from what the subreaper has said, if it is there."""
        line, end, _ = self._said.partition(b"ended ")[2].partition(b"\n")
        if self.returncode is None and end:
            self.returncode = int(line)


def _read(control: socket.socket) -> bytes:
    try:
        return control.recv(_SAID_BYTES)
    except ConnectionError:
        return b""


class Watchdog:
    """A program that outlives the hub and is told of its children. Raises: OSError."""

    program = watchdog.__file__

    def __init__(self, hub: int, since: int) -> None:
        self._popen = self._begun(subprocess.PIPE, hub, since)
        if self._popen.stdin is not None:
            os.set_blocking(self._popen.stdin.fileno(), False)

    def _begun(self, stdin: int, hub: int, since: int) -> subprocess.Popen[bytes]:
        """Start the program. It keeps no stream and no directory of the hub's."""
        return subprocess.Popen(  # noqa: S603 - the program is this package's own
            [sys.executable, "-I", "-S", "-B", self.program, str(hub), str(since)],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_there(self) -> bool:
        """Whether the program is running."""
        return self._popen.poll() is None

    def tell(self, line: str) -> None:
        """Tell the program what came or went."""
        with suppress(BlockingIOError, ConnectionError):
            if self._popen.stdin is not None:
                os.write(self._popen.stdin.fileno(), os.fsencode(line))

    def close(self) -> None:
        """Close the program's input: it ends what is left of the children, and exits."""
        self.go_on()
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def go_on(self) -> None:
        """Continue the program if a process of the same user has stopped it (SIGSTOP)."""
        if _CONTINUE is not None:
            self._popen.send_signal(_CONTINUE)

    def wait(self, patience: float) -> None:
        """Wait at most `patience` seconds for the program to exit, then kill it."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(patience)
            return
        self._popen.kill()
        self._popen.wait()


class ForkServerClient(Watchdog):
    """The hub's connection to the fork server, a watchdog that also forks subreapers."""

    patience = START_PATIENCE
    program = str(Path(__file__).with_name("forkserver.py"))

    def __init__(self, hub: int, since: int) -> None:
        self._hub, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._hub.setblocking(False)
        self._turn = anyio.Lock()
        try:
            with theirs:
                self._popen = self._begun(theirs.fileno(), hub, since)
        except OSError:
            self._hub.close()
            raise

    def tell(self, line: str) -> None:
        with suppress(BlockingIOError, ConnectionError):
            self._hub.send(os.fsencode(line))

    def close(self) -> None:
        self.go_on()
        self._hub.close()

    async def start(self, request: bytes, streams: ChildPipes) -> Supervised:
        """Start a process below a new subreaper.

        Raises: OSError if it cannot be started; LostForkServerError if the fork server has ended.
        """
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            with theirs:
                async with self._turn:
                    await self._fork((*streams, theirs.fileno()))
            self.go_on()
            with anyio.fail_after(self.patience):
                await _send(ours, request)
                return await _started(ours)
        except TimeoutError:
            ours.close()
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
        except BaseException:
            ours.close()
            raise

    async def _fork(self, descriptors: tuple[int, ...]) -> None:
        while True:
            if self._hub.fileno() < 0:  # it had ended, and another one was started since
                raise LostForkServerError
            try:
                socket.send_fds(self._hub, [b"fork"], descriptors)
            except BlockingIOError:
                self.go_on()
                await anyio.wait_writable(self._hub)
            except ConnectionError as exc:
                raise LostForkServerError from exc
            else:
                return


async def _send(control: socket.socket, request: bytes) -> None:
    rest = memoryview(request)
    while rest:
        try:
            rest = rest[control.send(rest) :]
        except BlockingIOError:
            await anyio.wait_writable(control)
        except ConnectionError:  # the subreaper's answer is read next
            return


async def _started(control: socket.socket) -> Supervised:
    said = b""
    while b"\n" not in said:
        await anyio.wait_readable(control)
        more = _read(control)
        if not more:
            raise LostForkServerError
        said += more
    line, _, rest = said.partition(b"\n")
    what, *numbers = line.split()
    if what == b"failed":
        raise OSError(int(numbers[0]), os.strerror(int(numbers[0])))
    return Supervised(control, int(numbers[0]), int(numbers[1]), rest)
