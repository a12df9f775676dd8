"""The socket between an attached process and its hub: what they send, and who is at its end.

The client sends a hello (four bytes of length, then JSON), with stdin and stdout passed along. The
hub answers with frames: a letter, four bytes of length, and that many bytes. Once the client has
`ACKNOWLEDGED` it sends `GO`, and only then the hub reads from stdin. So a client that has waited
too long closes the connection, and knows that nothing of its input was taken.
"""

from __future__ import annotations

import _socket
import json
import os
import stat
import sys

PROTOCOL = 1
"""The version of this file's format. `Kind`s other than `attach` never change."""
ACKNOWLEDGED, REFUSED, LOG, END, ANSWER = b"a", b"r", b"l", b"e", b"j"
"""The kinds of frames: the client is served; it is not (JSON: why); a line of the log; the session
is over (one byte: the exit code); the answer to an inquiry (JSON)."""
GO = b"g"
MAX_HELLO = 4 * 1024 * 1024
"""Bytes of a hello; the kernel limits argv and environment together to 2 MB by default."""
MAX_FRAME = 16 * 1024 * 1024
_LENGTH = 4
HEAD = 1 + _LENGTH
EX_TEMPFAIL = 75
"""The exit code of an attached process whose hub has crashed: a temporary failure."""


class FrameError(Exception):
    """The other side did not send a valid hello or frame."""


def hello(kind: str, secret: str, version: str, **more: object) -> bytes:
    """Return the hello that asks for `kind`: attach, status, reload, stop or retire."""
    said = {"protocol": PROTOCOL, "kind": kind, "secret": secret, "version": version, **more}
    text = json.dumps(said).encode()
    return len(text).to_bytes(_LENGTH, "big") + text


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """Return one frame."""
    return kind + len(content).to_bytes(_LENGTH, "big") + content


def json_frame(kind: bytes, content: object) -> bytes:
    """Return a frame with JSON in it."""
    return frame(kind, json.dumps(content).encode())


def hello_length(begun: bytes | bytearray) -> int | None:
    """Return the length of the whole hello, None while that has not come. Raises: FrameError."""
    if len(begun) < _LENGTH:
        return None
    length = int.from_bytes(begun[:_LENGTH], "big")
    if length > MAX_HELLO:
        raise FrameError(f"a hello of {length} bytes")
    return _LENGTH + length


def parsed_hello(whole: bytes | bytearray) -> dict[str, object]:
    """Return what a hello says. Raises: FrameError if it is no JSON object."""
    return parsed(bytes(whole[_LENGTH:]))


def parsed(content: bytes) -> dict[str, object]:
    """Return the JSON object in `content`. Raises: FrameError if it is none."""
    try:
        found: dict[str, object] = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise FrameError("no JSON") from exc
    if found.__class__ is not dict:
        raise FrameError("no JSON object")
    return found


class FrameReader:
    """Cuts received bytes into frames."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def feed(self, received: bytes) -> list[tuple[bytes, bytes]]:
        """Return the frames that are complete now: kind and content.

        Raises: FrameError if one is too long.
        """
        self._begun += received
        found: list[tuple[bytes, bytes]] = []
        while len(self._begun) >= HEAD:
            length = int.from_bytes(self._begun[1:HEAD], "big")
            if length > MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes")
            if len(self._begun) < HEAD + length:
                break
            found.append((bytes(self._begun[:1]), bytes(self._begun[HEAD : HEAD + length])))
            del self._begun[: HEAD + length]
        return found


_INT = 4
_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
"""macOS: the level of options of Unix sockets, and two of them."""
_XUCRED = 76
"""The size of macOS's `struct xucred`: version, user id, number of groups, groups."""


def peer_of(connection: _socket.socket) -> tuple[int, int]:
    """Return the process id and the user id of the peer.

    Of a listening socket's side that is who listened, of the other side who connected.

    Raises: OSError if the kernel does not tell.
    """
    if sys.platform == "darwin":
        said = connection.getsockopt(_LOCAL, _LOCAL_PEERCRED, _XUCRED)
        pid = connection.getsockopt(_LOCAL, _LOCAL_PEERPID, _INT)
        return _number(pid), _number(said[_INT : 2 * _INT])
    if sys.platform == "linux":
        said = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * _INT)
        return _number(said[:_INT]), _number(said[_INT : 2 * _INT])
    raise OSError("this system does not tell who is at the other end of a socket")


def is_stream_socket(number: int) -> bool:
    """Return whether a descriptor is a stream socket of this machine's."""
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        return False
    same = _socket.socket(fileno=os.dup(number))
    try:
        return same.family == _socket.AF_UNIX and same.type == _socket.SOCK_STREAM
    finally:
        same.close()


def _number(said: bytes) -> int:
    return int.from_bytes(said, sys.byteorder)
