"""Stands for an `era_server.py` on stdio: `era_child.py SOCKET NAME [many]`.

It hands its stdin and stdout to the program that serves at the socket, and ends when that is done
with them. To import the SDK takes a server a second of its own, and the hub starts many of them.
"""

import json
import socket
import sys


def main() -> None:
    path, *asked = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as host:
        host.connect(path)
        socket.send_fds(host, [json.dumps(asked).encode()], [0, 1])
        host.recv(1)


if __name__ == "__main__":
    main()
