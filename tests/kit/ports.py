"""Ports of loopback for servers that are told where to listen before they run."""

import secrets
import socket

LOWEST, COUNT = 10_000, 20_000
"""The system gives these to nobody by itself: who asks for any port gets a higher one."""


def free_port() -> int:
    """Return a port that nobody listens on, and that nobody is given until somebody asks for it.

    One that the system chose is free again at once, and may be given to any connection next.
    """
    while True:
        port = LOWEST + secrets.randbelow(COUNT)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
