"""Start the user's hub: of all processes that want it at once, one does, and the others wait."""

# ruff: noqa: PTH208, SIM105 - this file must load fast
from __future__ import annotations

import _socket
import fcntl
import os
import select
import signal
import sys
import time

from hub.attach.lifeline import NotAttachedError, connected
from hub.attach.runtime_directory import HubPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 15.0
"""Seconds for a hub to start."""
READY, HELD = b"ready", b"held"
"""What a started hub says: it serves, or another one still holds its place."""
READY_DESCRIPTOR = 3
"""Where a started hub says that it is ready, or why it is not."""
_LOOK_EVERY = 0.01
_MOST = 4096


def reached(
    place: HubPlace, arguments: list[str], environment: Callable[[], dict[str, str]]
) -> _socket.socket:
    """Return a connection to the hub, which is started with `arguments` if none is running.

    `environment` is called in the new process; it returns the variables that the hub gets.

    Raises: NotAttachedError if it does not start.
    """
    until = time.monotonic() + PATIENCE
    found = connected(place)
    if found is not None:
        return found
    try:
        lock = place.open_lock("start")
    except OSError as exc:
        raise NotAttachedError(f"no lock: {exc.strerror}") from exc
    try:
        is_turn = False
        while time.monotonic() <= until:
            is_turn = is_turn or _is_locked(lock)
            # Looked at again: whoever held the lock before has started it.
            found = connected(place)
            if found is not None:
                return found
            if is_turn:
                _start(arguments, environment, until)
            else:
                time.sleep(_LOOK_EVERY)
        raise NotAttachedError("the hub is started, and does not begin to serve")
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        raise NotAttachedError(f"no lock: {exc.strerror}") from exc
    return True


def _start(arguments: list[str], environment: Callable[[], dict[str, str]], until: float) -> None:
    """Start the hub as a process of no client's, and wait until it is ready or another one is.

    Raises: NotAttachedError with the text of what it says instead.
    """
    reading, writing = os.pipe()
    try:
        try:
            child = os.fork()
        except OSError as exc:
            raise NotAttachedError(f"no process for the hub: {exc.strerror}") from exc
        if not child:
            _become_hub(arguments, environment, writing)
        os.close(writing)
        writing = -1
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass  # the client ignores SIGCHLD: the system has waited
        said = _said(reading, until)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if said == HELD:
        time.sleep(_LOOK_EVERY)
    elif said != READY:
        text = said.decode("utf-8", "replace").strip()
        raise NotAttachedError(text or "the hub has not started")


def _said(reading: int, until: float) -> bytes:
    """Return what the new hub says until it closes its end of the pipe."""
    said = b""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        more = os.read(reading, _MOST)
        if not more:
            break
        said += more
    return said


def _become_hub(
    arguments: list[str], environment: Callable[[], dict[str, str]], ready: int
) -> None:
    """Become the hub's process in a session of its own; does not return.

    Nothing of the first client's stays: no descriptors, directory, ignored signals.
    """
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGCHLD,
            signal.SIGPIPE,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        variables = environment()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        if ready != READY_DESCRIPTOR:
            os.dup2(ready, READY_DESCRIPTOR)
        os.set_inheritable(READY_DESCRIPTOR, True)
        os.closerange(READY_DESCRIPTOR + 1, _most_descriptors())
        os.execve(sys.executable, [sys.executable, *arguments], variables)  # noqa: S606 - the hub itself
    finally:
        os._exit(127)


def _most_descriptors() -> int:
    """Return a number above all open descriptors."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return max(map(int, os.listdir(folder))) + 1
        except (OSError, ValueError):
            continue
    return os.sysconf("SC_OPEN_MAX")
