"""The hub's side of a process whose parent is a subreaper, and of the program that forks those."""

from __future__ import annotations

import asyncio  # noqa: TID251 - loops differ in who closes what they watch
import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

import anyio

from hub.children.process import watchdog
from hub.children.process.spawn import ChildPipes, Started
from hub.children.process.subreaper import END_NOW

START_PATIENCE: Final = 10.0
"""Seconds in which a process is started, or cannot be."""
END_PATIENCE: Final = 2.0
"""Seconds that a subreaper gets to end what is left."""
_SAID_BYTES: Final = 256
_CONTINUE: Final = getattr(signal, "SIGCONT", None)
"""Windows has none, and nobody there who stops others."""


class LostForkServerError(Exception):
    """The program that forks subreapers has ended."""


class Supervised:
    """A process that a subreaper has started. `subreaper` is its process id."""

    def __init__(self, control: socket.socket, pid: int, subreaper: int, said: bytes) -> None:
        self.pid = pid
        self.subreaper = subreaper
        self.returncode: int | None = None
        self._control = control
        self._said = said

    def fileno(self) -> int:
        """Return what can be read from when `poll` has more to say."""
        return self._control.fileno()

    def poll(self) -> int | None:
        """Return how the process ended; None while that is not known.

        One whose subreaper was killed counts as killed, which it is.
        """
        if self.returncode is None and self._control.fileno() >= 0:
            with suppress(BlockingIOError):
                self._hear()
        return self.returncode

    def wait(self) -> int | None:
        """Wait for the end of the process, and return how that was."""
        with suppress(ValueError):  # closed meanwhile: nobody wants to know any more
            while self.poll() is None:
                select.select([self._control], [], [])
        return self.returncode

    async def finish(self) -> None:
        """Have everything ended that the process has left, and wait for that."""
        with self._control:
            with suppress(OSError):
                self._control.send(END_NOW)
            with anyio.move_on_after(END_PATIENCE):
                await anyio.wait_readable(self._control)
                while self._hear():
                    await anyio.wait_readable(self._control)

    def _hear(self) -> bool:
        """Take in what the subreaper says; return whether it may say more.

        Raises: BlockingIOError when it says nothing.
        """
        more = _read(self._control)
        self._said += more
        if self.returncode is None and (line := self._said.partition(b"ended ")[2]):
            self.returncode = int(line)
        elif self.returncode is None and not more:
            self.returncode = -int(signal.SIGKILL)
        return bool(more)


def _read(control: socket.socket) -> bytes:
    try:
        return control.recv(_SAID_BYTES)
    except ConnectionError:
        return b""


class Watchdog:
    """A program that outlives the hub, and is told of its children as `watchdog` explains.

    Raises: OSError if it cannot be started.
    """

    program = watchdog.__file__

    def __init__(self, hub: int, since: int) -> None:
        self._popen = self._begun(subprocess.PIPE, hub, since)
        if self._popen.stdin is not None:
            os.set_blocking(self._popen.stdin.fileno(), False)

    def _begun(self, stdin: int, hub: int, since: int) -> subprocess.Popen[bytes]:
        """Start the program. It holds no stream and no directory of the hub's."""
        return subprocess.Popen(  # noqa: S603 - this file's neighbour
            [sys.executable, "-I", "-S", "-B", self.program, str(hub), str(since)],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def tell(self, line: str) -> None:
        """Tell it of a child that came or went."""
        with suppress(BlockingIOError, ConnectionError):
            if self._popen.stdin is not None:
                os.write(self._popen.stdin.fileno(), line.encode())

    def close(self) -> None:
        """Let it look once more, and end."""
        self.go_on()
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def go_on(self) -> None:
        """Let it go on if somebody has stopped it (SIGSTOP): children of its user can."""
        if _CONTINUE is not None:
            self._popen.send_signal(_CONTINUE)

    def wait(self, patience: float) -> None:
        """Wait for its end, so many seconds at most, and end it then."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(patience)
            return
        self._popen.kill()
        self._popen.wait()


class ForkServerClient(Watchdog):
    """A watchdog that forks subreapers, too."""

    program = str(Path(__file__).with_name("forkserver.py"))

    def __init__(self, hub: int, since: int) -> None:
        self._hub, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._hub.setblocking(False)
        try:
            with theirs:
                self._popen = self._begun(theirs.fileno(), hub, since)
        except OSError:
            self._hub.close()
            raise

    def tell(self, line: str) -> None:
        with suppress(BlockingIOError, ConnectionError):
            self._hub.send(line.encode())

    def close(self) -> None:
        self.go_on()
        self._hub.close()

    async def start(self, request: bytes, streams: ChildPipes) -> Supervised:
        """Have a process started.

        Raises: OSError if it cannot be; LostForkServerError if there is nobody to start it.
        """
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            with theirs:
                await self._fork((*streams, theirs.fileno()))
            self.go_on()
            with anyio.fail_after(START_PATIENCE):
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
            try:
                socket.send_fds(self._hub, [b"fork"], descriptors)
            except BlockingIOError:
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
        except ConnectionError:  # what it says is read next
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


def when_ended(process: Started, told: Callable[[], None]) -> Callable[[], None]:
    """Call `told` in the running loop once `process` has ended and left its exit code.

    Return what ends the watch; calling it again does nothing.
    """
    loop = asyncio.get_running_loop()
    try:
        handle = _handle(process)
    except (AttributeError, OSError):  # not Linux, or before 5.3
        return _by_thread(process, told, loop)

    def stop() -> None:
        nonlocal handle
        if handle >= 0:
            loop.remove_reader(handle)
            os.close(handle)
            handle = -1

    def ended() -> None:
        if process.poll() is not None:
            stop()
            told()

    loop.add_reader(handle, ended)
    return stop


def _handle(process: Started) -> int:
    """Return a descriptor that can be read from once the process has ended.

    Who is not its parent learns how it ended from the one that is, a moment later.
    """
    return (
        os.dup(process.fileno()) if isinstance(process, Supervised) else os.pidfd_open(process.pid)
    )


def _by_thread(
    process: Started, told: Callable[[], None], loop: asyncio.AbstractEventLoop
) -> Callable[[], None]:
    is_watched = True

    def tell() -> None:
        if is_watched:
            told()

    def wait() -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(tell)

    def stop() -> None:
        nonlocal is_watched
        is_watched = False

    Thread(target=wait, name=f"exit of {process.pid}", daemon=True).start()
    return stop
