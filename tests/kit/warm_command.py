"""Stands in for the installed command where another program starts it: has a warm hub run.

It is what the hub's process is to that program: its streams, its signals, its end.
"""

import array
import json
import os
import signal
import socket
import sys


def main(server: str, command: list[str]) -> int:
    """Run a command on the streams of this process, and return how it ended."""
    order = {"argv": command, "environment": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109 - it loads fast
    ignores_hangups = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    text = json.dumps({**order, "new_session": False, "ignores_hangups": ignores_hangups}).encode()
    with socket.socket(socket.AF_UNIX) as hub:
        hub.connect(server)
        socket.send_fds(hub, [len(text).to_bytes(4, "little")], [0, 1, 2])
        hub.sendall(text)
        pid = _number(hub)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: os.kill(pid, number))
        for stream in (0, 1, 2):
            os.close(stream)
        return _number(hub)


def _number(hub: socket.socket) -> int:
    return array.array("i", hub.recv(4, socket.MSG_WAITALL))[0]


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2:])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
