"""Runs a program at a terminal of its own, as a person does: reads what it shows, types answers."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.warm import AnyProcess, WarmHub, command_of, is_warm, popen

SOON = 60.0
"""Seconds that a program may take to show something or to end."""


class Terminal:
    """A program at a terminal; `shown` is all that it has shown so far."""

    def __init__(self, pid: int, screen: int, wait: Callable[[], int]) -> None:
        self.pid = pid
        self._wait = wait
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
        return self._wait()

    def close(self) -> None:
        """Kill the program, if it still runs."""
        if not self._is_over:
            os.kill(self.pid, signal.SIGKILL)
            self._wait()
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

    def start(self, argv: Sequence[str], **options: Any) -> AnyProcess:
        """Start a process, warm or not, that the terminal belongs to."""
        if is_warm(argv, options.get("env")):
            return popen(argv, terminals=self.files, **options)
        command = self.command(command_of(argv))
        return subprocess.Popen(command, pass_fds=self.files, **options)  # noqa: S603 - a test's own


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
    if is_warm(command, env):
        screen, theirs = pty.openpty()
        process = WarmHub(command, [theirs] * 4, cwd=cwd, env=env)
        os.close(theirs)
        terminal = Terminal(process.pid, screen, process.wait)
    else:
        pid, screen = pty.fork()
        if pid == 0:
            os.chdir(cwd)
            argv = command_of(command)
            os.execvpe(argv[0], argv, dict(env))  # noqa: S606 - a test's own command
        terminal = Terminal(pid, screen, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    try:
        yield terminal
    finally:
        terminal.close()
