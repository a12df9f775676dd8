"""The client's side of being attached: find the hub, hand stdin and stdout over, wait for the end.

After that no byte of the client passes through this process. It is the lifeline: when it ends, the
hub ends the session; when the hub ends, so does it. `ask` is for those who only ask a hub: for its
status, to take its config over, to stop.
"""

from __future__ import annotations

import _socket
import os
import select
import signal
import stat
import sys
import time

from hub.attach.frames import (
    ACKNOWLEDGED,
    ANSWER,
    END,
    EX_TEMPFAIL,
    GO,
    LOG,
    REFUSED,
    FrameError,
    FrameReader,
    hello,
    is_stream_socket,
    parsed,
    peer_of,
)
from hub.attach.runtime_directory import HubPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATIENCE = 5.0
"""Seconds until a hub that has not acknowledged counts as stuck."""
ANSWER_PATIENCE = 30.0
"""Seconds for an answer: to take a config over, a hub may have to start servers."""
TRIES = 5
"""How often a hub may end, or be replaced, before it has acknowledged."""
_CHUNK, _INT = 65536, 4
_LINE = 4096
"""Bytes that a pipe accepts at once when it is writable (PIPE_BUF)."""


class NotAttachedError(Exception):
    """No hub serves this client, and nothing of its input was taken; the text says why."""


class RefusedError(Exception):
    """The hub does not serve this client, and no hub would; the text says why and what to do."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def why_not_these_streams() -> str | None:
    """Return why stdin and stdout cannot be handed over; None if they can.

    Only what a client made for this process alone is: a pipe or a socket. Whether a terminal blocks
    its readers is the same for all who have it open, and a file can be read to its end at once.
    """
    for number, name in enumerate(("stdin", "stdout")):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            return f"{name} is closed"
        if not stat.S_ISFIFO(mode) and not is_stream_socket(number):
            return f"{name} is a terminal" if os.isatty(number) else f"{name} is no pipe"
    return None


def connected(place: HubPlace, patience: float = PATIENCE) -> _socket.socket | None:
    """Return a connection to the hub; None if none is running.

    Raises: NotAttachedError if another user's process listens there, or none can be made.
    """
    try:
        made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except OSError as exc:
        raise NotAttachedError(f"no socket: {exc.strerror}") from exc
    try:
        made.settimeout(patience)
        made.connect(place.address)
        _must_be_ours(made)
    except (FileNotFoundError, ConnectionRefusedError):
        made.close()
        return None
    except OSError as exc:
        made.close()
        raise NotAttachedError(f"no connection to the hub: {exc.strerror or exc}") from exc
    except BaseException:
        made.close()
        raise
    return made


def _must_be_ours(connection: _socket.socket) -> None:
    if peer_of(connection)[1] != os.geteuid():
        raise NotAttachedError("another user's process listens in the hub's place")


def attach(
    place: HubPlace, version: str, reach: Callable[[], _socket.socket], **said: object
) -> int:
    """Have the hub serve the client on stdin and stdout; return the exit code when that is over.

    `reach` returns a connection to the hub, started if need be. `said` goes into the hello.

    Raises:
        NotAttachedError: no hub has acknowledged.
        RefusedError: the hub has told why it does not serve this client.
    """
    why = ""
    for _ in range(TRIES):
        connection = reach()
        try:
            frames = FrameReader()
            early = _acknowledged(connection, frames, place, version, said)
            connection.settimeout(None)
            connection.sendall(GO)
        except (ConnectionError, EOFError):
            # It ended, or another hub took its place, before it took anything of the client's.
            connection.close()
            why = "the hub has ended while it was asked"
            time.sleep(0.01)
            continue
        except (OSError, FrameError) as exc:
            connection.close()
            raise NotAttachedError(f"the hub does not answer: {exc}") from exc
        except BaseException:
            connection.close()
            raise
        _let_go()
        return _wait(connection, frames, early)
    raise NotAttachedError(why)


def _acknowledged(
    connection: _socket.socket,
    frames: FrameReader,
    place: HubPlace,
    version: str,
    said: dict[str, object],
) -> list[tuple[bytes, bytes]]:
    """Send the hello, and return the frames that came after the acknowledgement."""
    text = hello("attach", place.secret(), version, **said)
    passed = b"".join(number.to_bytes(_INT, sys.byteorder) for number in (0, 1))
    sent = connection.sendmsg([text], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
    connection.sendall(text[sent:])
    while True:
        received = connection.recv(_CHUNK)
        if not received:
            raise EOFError
        found = frames.feed(received)
        if found:
            break
    kind, content = found[0]
    if kind == ACKNOWLEDGED:
        return found[1:]
    if kind != REFUSED:
        raise FrameError("no acknowledgement")
    answer = parsed(content)
    if answer.get("alone"):
        raise NotAttachedError(str(answer.get("why")))
    code = answer.get("code")
    raise RefusedError(str(answer.get("why")), code if isinstance(code, int) else 1)


def _let_go() -> None:
    """Put /dev/null over stdin and stdout: kept open, they would hide a hub's end from the client.

    From now on an interrupt ends this process, and with it the session.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _wait(connection: _socket.socket, frames: FrameReader, found: list[tuple[bytes, bytes]]) -> int:
    """Pass the hub's lines on to stderr until the session is over; return its exit code."""
    while True:
        for kind, content in found:
            if kind == LOG:
                _tell(content)
            elif kind == END:
                return content[0] if content else 0
        try:
            received = connection.recv(_CHUNK)
        except ConnectionError:
            received = b""
        if not received:
            _tell(b"roots-hub: the hub has ended unexpectedly\nStart this command again.\n")
            return EX_TEMPFAIL
        found = frames.feed(received)


def _tell(text: bytes) -> None:
    """Write to stderr what it accepts now: a client that does not read it must not hold this up."""
    writable = select.poll()
    writable.register(2, select.POLLOUT)
    for at in range(0, len(text), _LINE):
        try:
            if not any(event & select.POLLOUT for _, event in writable.poll(0)):
                return
            os.write(2, text[at : at + _LINE])
        except OSError:
            return


def ask(
    place: HubPlace,
    kind: str,
    version: str,
    *,
    until_end: bool = False,
    patience: float | None = None,
) -> Mapping[str, object] | None:
    """Return a hub's answer; None if none is running. `until_end`: return when the hub has ended.

    `patience`: seconds for connecting and for each part of the answer.

    Raises: NotAttachedError if it does not answer.
    """
    connection = connected(place, patience or PATIENCE)
    if connection is None:
        return None
    try:
        connection.settimeout(patience or ANSWER_PATIENCE)
        connection.sendall(hello(kind, place.secret(), version, pid=os.getpid()))
        return _answer(connection, until_end=until_end)
    except (OSError, FrameError) as exc:
        raise NotAttachedError(f"the hub does not answer: {exc}") from exc
    finally:
        connection.close()


def _answer(connection: _socket.socket, *, until_end: bool) -> Mapping[str, object]:
    frames, answer = FrameReader(), None
    while received := connection.recv(_CHUNK):
        for kind, content in frames.feed(received):
            if kind != ANSWER:
                raise NotAttachedError(str(parsed(content).get("why")))
            answer = parsed(content)
        if answer is not None and not until_end:
            break
    if answer is None:
        raise NotAttachedError("the hub has closed the connection")
    return answer
