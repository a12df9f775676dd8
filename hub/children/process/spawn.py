"""Starts a process on three pipes whose other ends an event loop can watch.

Not by the event loop's own way to do that. Each loop has its own: some put sockets in the place of
pipes, which a program cannot open by `/dev/stderr`, some let the program inherit descriptors that
are not its own, and all take a turn more for each message.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - loops differ in who closes what they watch
import os
import subprocess
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Protocol, TypeAlias

from msgspec import Struct

ChildPipes: TypeAlias = tuple[int, int, int]
"""What a process has as stdin, stdout and stderr."""


class End:
    """An end of a pipe. It is closed once: by who took it, or by `close` where nobody did."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_ours = True

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        """Close it, unless it is closed or somebody else does that."""
        if self._is_ours:
            self._is_ours = False
            os.close(self._number)

    def taken(self, loop: asyncio.AbstractEventLoop) -> End:
        """Return itself, for a transport of `loop` to keep and close.

        Loops on libuv close what they watch by its number, and call `close` too. By then that
        number may be another thread's.
        """
        self._is_ours = isinstance(loop, asyncio.BaseEventLoop)
        return self


class Started(Protocol):
    """A process that was started, whoever is its parent."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Return how it ended, as `subprocess` says it; None while that is not known."""
        ...

    def wait(self) -> int | None:
        """Wait for its end, and return how that was."""
        ...


Start: TypeAlias = Callable[
    [Sequence[str], Mapping[str, str], str | None, ChildPipes], Awaitable[Started]
]
"""Starts a process with arguments, environment, working directory and streams; raises OSError or
ValueError if it cannot be."""


class Spawned(Struct, frozen=True):
    """A process that was started, and our ends of its pipes."""

    popen: Started
    stdin: End
    stdout: End
    stderr: End

    def close(self) -> None:
        """Close the ends that nobody took."""
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()


def popen(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, streams: ChildPipes
) -> subprocess.Popen[bytes]:
    """Start a child of this process, in a session of its own.

    Raises: OSError or ValueError if it cannot be started.
    """
    stdin, stdout, stderr = streams
    return subprocess.Popen(  # noqa: S603 - what the operator configured
        argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )


async def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, start: Start
) -> Spawned:
    """Start a process on three pipes.

    Raises: OSError or ValueError if it cannot be started.
    """
    with _piped() as (theirs, (stdin, stdout, stderr)):
        started = await start(argv, env, cwd, theirs)
        return Spawned(started, End(stdin), End(stdout), End(stderr))


@contextmanager
def _piped() -> Generator[tuple[ChildPipes, ChildPipes]]:
    """Make three pipes, for the process and for us. Its ends are closed here, ours on failure.

    Raises: OSError.
    """
    (stdin, our_stdin), (our_stdout, stdout), (our_stderr, stderr) = _pipes()
    try:
        yield (stdin, stdout, stderr), (our_stdin, our_stdout, our_stderr)
    except BaseException:
        for ours in (our_stdin, our_stdout, our_stderr):
            os.close(ours)
        raise
    finally:
        for theirs in (stdin, stdout, stderr):
            os.close(theirs)


def _pipes() -> list[tuple[int, int]]:
    """Return three pipes.

    Raises: OSError; then there are none.
    """
    made: list[tuple[int, int]] = []
    try:
        while len(made) < 3:  # noqa: PLR2004 - what a process has
            made.append(os.pipe())
    except OSError:
        for end in chain.from_iterable(made):
            os.close(end)
        raise
    return made
