"""Who connects to the hub's socket, and what it asks for: all checks before anything is served."""

from __future__ import annotations

import hmac
import os
import socket
import subprocess
import sys
from array import array
from contextlib import suppress
from typing import Final, cast

import anyio
from msgspec import Struct

from hub.attach.frames import PROTOCOL, FrameError, hello_length, parsed_hello, peer_of
from hub.children.process import watchdog
from hub.values import JsonObject, object_or_empty

PATIENCE: Final = 5.0
"""Seconds in which a hello must have come."""
INQUIRIES: Final = frozenset({"status", "reload", "stop", "retire"})
_FIRST: Final = 1
"""The process id of the system's first process, which adopts orphans."""
_STREAMS: Final = 2
_INT: Final = array("i").itemsize
_CHUNK: Final = 256 * 1024
_CLOSED_IN_CHILDREN: Final[int] = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class NotAdmittedError(Exception):
    """Whoever connected is not served; nothing is said to it, and the log says why."""


class NotServedError(Exception):
    """A client is told why it is not served; `alone`: it can serve itself instead."""

    def __init__(self, text: str, *, alone: bool = False, code: int = 1) -> None:
        super().__init__(text)
        self.alone = alone
        self.code = code


class Greeting(Struct, frozen=True):
    """A hello that was checked: `descriptors` are the client's stdin and stdout, if it attaches."""

    kind: str
    pid: int
    said: JsonObject
    descriptors: tuple[int, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the client's environment."""
        found = object_or_empty(self.said.get("environment"))
        return {name: value for name, value in found.items() if isinstance(value, str)}

    @property
    def directory(self) -> str:
        """The client's working directory."""
        found = self.said.get("directory")
        return found if isinstance(found, str) and found.startswith("/") else "/"

    @property
    def roots(self) -> tuple[str, ...]:
        """The client's `--root` options."""
        found = self.said.get("roots")
        return tuple(map(str, found)) if isinstance(found, list) else ()


def must_be_a_client(connection: socket.socket) -> int:
    """Return the process id of the peer.

    Raises:
        NotAdmittedError: it is another user's process.
        NotServedError: it is one of the hub's own servers, or was started by one. Were it served
            alone instead, it would start all servers again, and these would attach again.
    """
    try:
        pid, user = peer_of(connection)
    except OSError as exc:
        raise NotAdmittedError(f"nobody knows who it is: {exc}") from exc
    if user != os.geteuid():
        raise NotAdmittedError(f"it is a process of the user with the id {user}")
    if is_descendant(pid):
        raise NotServedError(
            f"process {pid} has ended, or was started by one of this hub's own servers\n"
            "Give that server a config without this hub in it."
        )
    return pid


async def greeting(connection: socket.socket, pid: int, secret: str, version: str) -> Greeting:
    """Return what a client says first. Only the secret lets it in.

    Raises:
        NotAdmittedError: it says something else than the format, too late, or a wrong secret.
        NotServedError: it is of another version.
    """
    descriptors: list[int] = []
    try:
        with anyio.fail_after(PATIENCE):
            said = cast("JsonObject", parsed_hello(await _received(connection, descriptors)))
        _must_know(said, secret)
        kind = str(said.get("kind"))
        if kind in INQUIRIES:
            return Greeting(kind, pid, said, ())
        if kind != "attach":
            raise NotServedError(f"this hub does not know {kind!r}", alone=True)
        _must_fit(said, version)
        if len(descriptors) != _STREAMS:
            raise NotAdmittedError("stdin and stdout did not come along")
        made = Greeting(kind, pid, said, tuple(descriptors))
        descriptors.clear()
    except TimeoutError:
        raise NotAdmittedError("it says nothing") from None
    except (FrameError, OSError, EOFError) as exc:
        raise NotAdmittedError(f"it does not say what it should: {exc}") from exc
    finally:
        close_all(descriptors)
    return made


def close_all(descriptors: list[int] | tuple[int, ...]) -> None:
    """Close descriptors that nobody serves."""
    for one in descriptors:
        os.close(one)


def _must_know(said: JsonObject, secret: str) -> None:
    told = str(said.get("secret")).encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(told, secret.encode()):
        raise NotAdmittedError("it does not know the secret")


def _must_fit(said: JsonObject, version: str) -> None:
    if said.get("protocol") != PROTOCOL or said.get("version") != version:
        raise NotServedError(
            f"the hub that runs is roots-hub {version}, this command is {said.get('version')}",
            alone=True,
        )


async def _received(connection: socket.socket, descriptors: list[int]) -> bytearray:
    """Return a whole hello; descriptors that came along are added to `descriptors`.

    Raises: EOFError, FrameError, OSError; NotAdmittedError if not all descriptors came.
    """
    whole = bytearray()
    while (length := hello_length(whole)) is None or len(whole) < length:
        await anyio.wait_readable(connection)
        with suppress(BlockingIOError):
            whole += _chunk(connection, descriptors)
    if len(whole) > length:
        raise FrameError("more than a hello")
    return whole


def _chunk(connection: socket.socket, descriptors: list[int]) -> bytes:
    """Return bytes that have come; descriptors that came along are added to `descriptors`.

    Raises: as `_received`.
    """
    room = socket.CMSG_SPACE(_STREAMS * _INT)
    data, passed, flags, _ = connection.recvmsg(_CHUNK, room, _CLOSED_IN_CHILDREN)
    for level, kind, numbers in passed:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors += _numbers(numbers)
    if flags & socket.MSG_CTRUNC:
        raise NotAdmittedError("the hub has no free descriptor for it: raise `ulimit -n`")
    if len(descriptors) > _STREAMS:
        raise NotAdmittedError("more than stdin and stdout came along")
    if not data:
        raise EOFError("it has hung up")
    return data


def _numbers(passed: bytes) -> list[int]:
    found = array("i", passed[: len(passed) // _INT * _INT])
    for one in found:
        os.set_inheritable(one, False)
    return found.tolist()


def is_descendant(pid: int, ancestor: int | None = None) -> bool:
    """Return whether a process descends from `ancestor` (default: this process), or is gone.

    A server's orphans become children of its subreaper, so they are found as well. A process that
    left all that behind is told by its limit of real-time CPU time, which all descendants inherit.

    Raises: OSError if no file descriptor is free.
    """
    hub = os.getpid() if ancestor is None else ancestor
    if pid == hub or pid <= 0:
        return True
    if not watchdog.HAS_PROC:
        return _is_below(pid, hub, _parents_by_ps())
    mark = _mark()
    seen: set[int] = set()
    while pid > _FIRST and pid not in seen:
        found = watchdog.row(pid)
        if found is None:
            # The one that asks must be there; further up, others' processes may be hidden.
            return not seen
        if found.parent == hub or (mark and watchdog.child_of(pid, mark)):
            return True
        seen.add(pid)
        pid = found.parent
    return False


def _mark() -> int:
    """Return the number that marks this hub's children; 0 if it marks none."""
    if sys.platform != "linux":
        return 0
    from resource import RLIM_INFINITY, RLIMIT_RTTIME, getrlimit  # noqa: PLC0415 - not everywhere

    hard = getrlimit(RLIMIT_RTTIME)[1]
    return 0 if hard == RLIM_INFINITY else hard


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    if pid not in parents:
        return True
    while pid > _FIRST:
        pid = parents.pop(pid, 0)
        if pid == ancestor:
            return True
    return False


def _parents_by_ps() -> dict[int, int]:
    """Return the parent of each process, where there is no `/proc`."""
    said = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False
    ).stdout
    rows = (line.split() for line in said.splitlines())
    return {int(row[0]): int(row[1]) for row in rows if len(row) == 2}  # noqa: PLR2004 - pid and parent
