"""Runs a program at a terminal of its own, as a person does: reads what it shows, types answers."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SOON = 60.0
"""Seconds that a program may take to show something or to end."""


class Terminal:
    """A program at a terminal; `shown` is all that it has shown so far."""

    def __init__(self, pid: int, screen: int) -> None:
        self.pid = pid
        self._screen = screen
        self._is_over = False
        self.shown = ""

    def until(self, text: str) -> str:
        """Return what is shown, once it has `text` in it."""
        while text not in self.shown:
            assert self._read(), f"it ended, having shown: {self.shown}"
        return self.shown

    def type(self, text: str) -> None:
        """Type a text: with `\\n` a line, with `\\x03` Ctrl-C."""
        os.write(self._screen, text.encode())

    def end(self) -> int:
        """Wait for the program to end, and return its exit code."""
        while self._read():
            pass
        self._is_over = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        """Kill the program, if it still runs."""
        if not self._is_over:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._screen)

    def _read(self) -> bool:
        assert select.select([self._screen], [], [], SOON)[0], f"nothing more: {self.shown}"
        try:
            read = os.read(self._screen, 65536)
        except OSError:  # the terminal of a program that has ended
            return False
        self.shown += read.decode(errors="replace").replace("\r\n", "\n")
        return bool(read)


class ControllingTerminal:
    """A terminal to own: `command` runs a program that it belongs to; `files` must be passed on."""

    def __init__(self, terminal: int) -> None:
        self.files = (terminal,)

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line that takes the terminal, in a new session, and runs `command`."""
        return [sys.executable, "-c", _TAKE, str(self.files[0]), *command]


_TAKE = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
os.close(int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def controlling_terminal() -> Generator[ControllingTerminal]:
    """Yield a terminal for one process, whose streams stay. At the end the terminal hangs up."""
    screen, terminal = pty.openpty()
    try:
        yield ControllingTerminal(terminal)
    finally:
        os.close(terminal)
        os.close(screen)


@contextmanager
def at_terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> Generator[Terminal]:
    """Run a program at a new terminal until the context ends."""
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(command[0], list(command), dict(env))  # noqa: S606 - a test's own command
    terminal = Terminal(pid, screen)
    try:
        yield terminal
    finally:
        terminal.close()
