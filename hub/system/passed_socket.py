"""The listening socket that a service manager passes to this process, as systemd does.

The manager listens itself, and starts the hub when the first client connects. It keeps the socket
while the hub restarts, so that clients wait instead of being refused. The protocol is that of
`man sd_listen_fds`: file descriptor 3, announced by variables of the environment.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from typing import Final

from hub.errors import StartError

_FIRST: Final = 3
"""The file descriptor of the first passed socket."""
_VARIABLES: Final = ("LISTEN_FDNAMES", "LISTEN_PIDFDID")
_FIX: Final = "The socket unit needs one ListenStream= with a TCP port, and Accept=no."


def take_passed_socket(environ: MutableMapping[str, str]) -> socket.socket | None:
    """Return the socket that was passed to this process; None if there is none.

    Removes the variables from `environ`: a server of the hub would take its own file descriptor 3
    for the socket.

    Raises: StartError if it is not exactly one TCP socket that listens.
    """
    for name in _VARIABLES:
        environ.pop(name, None)
    process, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    if process != str(os.getpid()) or not count:
        return None  # passed to nobody, or to the program that started this one
    if count != "1":
        raise StartError(f"the service manager passes {count} sockets (LISTEN_FDS), not one", _FIX)
    try:
        passed = socket.socket(fileno=_FIRST)
    except OSError as exc:
        raise StartError(f"the service manager passes no socket: {exc.strerror}", _FIX) from exc
    why = _unfit(passed)
    if why is not None:
        passed.close()
        raise StartError(f"the service manager passes a socket that {why}", _FIX)
    passed.set_inheritable(False)
    return passed


def _unfit(passed: socket.socket) -> str | None:
    """Return why the hub cannot accept connections of this socket; None if it can."""
    is_ip = passed.family in {socket.AF_INET, socket.AF_INET6}
    if not is_ip or passed.type != socket.SOCK_STREAM:
        return "is not for TCP"
    if not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return "does not listen"
    return None
