"""Who is at the other end of a Unix socket, as the kernel says it."""

from __future__ import annotations

import _socket
import sys

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


def _number(said: bytes) -> int:
    return int.from_bytes(said, sys.byteorder)
