"""Starts a process on three pipes whose other ends an event loop can watch.

Not by the event loop's own way to do that. Each loop has its own: some put sockets in the place of
pipes, which a program cannot open by `/dev/stderr`, some let the program inherit descriptors that
are not its own, and all take a turn more for each message.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - loops differ in who closes what they watch
import os
import subprocess
from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec import Struct


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


class Spawned(Struct, frozen=True):
    """A process that was started, and our ends of its pipes."""

    popen: subprocess.Popen[bytes]
    stdin: End
    stdout: End
    stderr: End

    def close(self) -> None:
        """Close the ends that nobody took."""
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()


def spawn(argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None) -> Spawned:
    """Start a process in a session of its own.

    Raises: OSError or ValueError if it cannot be started.
    """
    (stdin, our_stdin), (our_stdout, stdout), (our_stderr, stderr) = _pipes()
    try:
        popen = subprocess.Popen(  # noqa: S603 - what the operator configured
            argv,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except BaseException:
        for ours in (our_stdin, our_stdout, our_stderr):
            os.close(ours)
        raise
    finally:
        for theirs in (stdin, stdout, stderr):
            os.close(theirs)
    return Spawned(popen, End(our_stdin), End(our_stdout), End(our_stderr))


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
