"""A process that has imported the hub, and forks a hub for each order (`tests/kit/warm.py`).

A hub's imports take most of its start. What is forked goes on as the installed command does: with
the command line, directory, environment and files of its order, and no others. The server does
nothing else, and has neither threads nor a loop.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from hub.cli import command_line
from hub.cli.hubs import shared_hub
from hub.cli.main import main
from hub.logins import login_process

SERVED_LATER = (
    *("hub.server.http.serve", "hub.server.http.app", "hub.server.stdio", "uvloop"),
    *("anyio._backends._asyncio", "uvicorn.protocols.http.httptools_impl"),
    *("hub.children.remote.connect", "hub.logins.login_files", "hub.app.issuers"),
    *("hub.config.source.strict_yaml", "cryptography.hazmat.primitives.ciphers.aead"),
)
"""What a hub imports once it has read its command line."""
LOGIN = "hub.cli.logins.for_hub"
"""The program of one login, which imports the SDK's client."""
NOT_FLUSHED = 120
"""The exit code of Python where what was written has not come out."""


def warm() -> None:
    """Import what a hub imports."""
    with command_line.lean():
        command_line.parser()
        for module in SERVED_LATER:
            import_module(module)


def taken(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next order and its files; None if there will be no more."""
    size, files, _, _ = socket.recv_fds(control, 4, 5)
    if not size:
        return None
    text = b""
    while len(text) < int.from_bytes(size, "little"):
        text += control.recv(int.from_bytes(size, "little") - len(text))
    return json.loads(text), files


def become(order: dict[str, Any], files: list[int], stands_in: list[str]) -> None:
    """Turn this process into one that was started for an order.

    `stands_in` is a command that has another process forked, instead of a module that is run.
    """
    if order["new_session"]:
        os.setsid()
    for terminal in files[4:]:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if order["ignores_hangups"] else signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(order["cwd"])
    os.execve = partial(executed, os.execve)
    cast("Any", login_process)._PROGRAM = (*stands_in, LOGIN)
    _begin_with(order["argv"], order["environment"])


def executed(
    execve: Callable[..., NoReturn], path: str, argv: list[str], environment: dict[str, str]
) -> NoReturn:
    """Become another program; the shared hub of `attach` without its imports, too."""
    if shared_hub.__file__ not in argv:
        execve(path, argv, environment)
    _show(argv)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python does when it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _begin_with(argv[argv.index(shared_hub.__file__) :], environment)
    end(partial(shared_hub.main, sys.argv[1:]))


def _show(argv: list[str]) -> None:
    """Let the kernel tell of this command line; what it told before has room for it."""
    ours = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    begin, after = int(ours[45]), int(ours[46])
    shown = b"".join(os.fsencode(word) + b"\0" for word in argv)
    assert len(shown) <= after - begin, "no room for so long a command line"
    ctypes.memmove(begin, shown.ljust(after - begin, b"\0"), after - begin)


def _begin_with(argv: list[str], environment: dict[str, str]) -> None:
    """Have what a program finds when it begins."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[:] = argv
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115 - for good
    sys.stdout = _written(1, sys.stdout.errors)
    sys.stderr = _written(2, sys.stderr.errors)
    sys.stderr.reconfigure(line_buffering=True)


def _written(file: int, errors: str | None) -> Any:
    return open(file, "w", encoding=sys.stdout.encoding, errors=errors, newline="\n", closefd=False)


def end(command: Callable[[], int | None]) -> NoReturn:
    """Run a command, and end this process as the interpreter does, but for taking it apart.

    To free all that is imported would take as long as most of what a hub of a test does.
    """
    try:
        code = command() or 0
    except SystemExit as exc:
        if not isinstance(exc.code, int):
            raise
        code = exc.code
    cast("Any", threading)._shutdown()
    cast("Any", atexit)._run_exitfuncs()
    is_written = [_is_flushed(stream) for stream in (sys.stdout, sys.stderr)]
    os._exit(code & 0xFF if all(is_written) else NOT_FLUSHED)


def _is_flushed(stream: IO[str]) -> bool:
    """Return whether what was written to a stream has come out of it."""
    if stream.closed:
        return True
    try:
        stream.flush()
    except (OSError, ValueError) as exc:
        with suppress(OSError, ValueError):
            if stream is not sys.stderr:
                said = traceback.format_exception_only(exc)
                sys.stderr.write("".join((f"Exception ignored in: {stream!r}\n", *said)))
        return False
    return True


class HubForker:
    """Forks hubs, and tells who ordered one its id, and how it ended.

    Orders come from the tests, and from who connects to `door`, and is told on that connection.
    """

    def __init__(self, control: socket.socket, door: socket.socket) -> None:
        self._control = control
        self._door = door
        program = str(Path(__file__).with_name("warm_command.py"))
        self._stands_in = [sys.executable, "-I", "-S", "-B", program, door.getsockname()]
        self._ready = select.poll()
        self._ready.register(control, select.POLLIN)
        self._ready.register(door, select.POLLIN)
        self._running: dict[int, tuple[int, int]] = {}
        """By a descriptor of the process: its id, and whom to tell that it has ended."""

    def serve(self) -> None:
        """Serve until the tests have ended; return in each hub."""
        while True:
            for ready, _ in self._ready.poll():
                if ready in self._running:
                    self._tell_the_end(ready)
                elif self._is_hub(*self._ordered(ready)):
                    return

    def _ordered(self, ready: int) -> tuple[dict[str, Any], list[int]]:
        """Take an order; the fourth of its files is where its orderer is told."""
        if ready == self._door.fileno():
            caller, _ = self._door.accept()
            got = taken(caller)
            assert got is not None, "it ended before it said what it wants"
            return got[0], [*got[1], caller.detach()]
        return taken(self._control) or self._end()

    def _is_hub(self, order: dict[str, Any], files: list[int]) -> bool:
        if order["argv"] == [LOGIN]:
            import_module(LOGIN)  # once for all
        pid = os.fork()
        if not pid:
            for one in (self._control, self._door):
                one.detach()  # else it would close, at its end, a descriptor of the hub
            become(order, files, self._stands_in)
            return True
        for file in (*files[:3], *files[4:]):
            os.close(file)
        process = os.pidfd_open(pid)
        self._ready.register(process, select.POLLIN)
        self._running[process] = pid, files[3]
        self._tell(files[3], pid)
        return False

    def _end(self) -> NoReturn:
        """End, with the hubs of tests that were cut off."""
        for pid, _ in self._running.values():
            os.kill(pid, signal.SIGKILL)
        sys.exit(0)

    def _tell_the_end(self, process: int) -> None:
        self._ready.unregister(process)
        pid, orderer = self._running.pop(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        self._tell(orderer, os.waitstatus_to_exitcode(status))
        os.close(orderer)

    @staticmethod
    def _tell(orderer: int, number: int) -> None:
        try:
            os.write(orderer, array.array("i", [number]).tobytes())
        except BrokenPipeError:
            return  # its test has ended


if __name__ == "__main__":
    warm()
    HubForker(*(socket.socket(fileno=int(number)) for number in sys.argv[1:3])).serve()
    end(import_module(LOGIN).main if sys.argv == [LOGIN] else main)
