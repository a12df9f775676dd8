"""Starts a process on three pipes whose other ends an event loop can watch.

The event loops' own subprocess support is not used. Loops differ: some use sockets in place of
pipes, which a program cannot open as `/dev/stderr`; some let the program inherit descriptors that
are not its own; and all need one more turn for each message.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - loops differ in who closes what they watch
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeAlias

from msgspec import Struct

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
    """Start a child of this process, in a session of its own.

    Raises: OSError or ValueError if it cannot be started.
    """
    stdin, stdout, stderr = streams
    return subprocess.Popen(  # noqa: S603 - the operator configured the command
        argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )


async def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, start: Start
) -> Spawned:
    """Start a process on three pipes, and return it with the hub's ends.

    Raises: OSError or ValueError if it cannot be started.
    """
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
