"""A client beside many that never finish what they begin: is it served, and what does that cost?

`python -m bench.slow_requests [COUNT]`: so many connections send nothing, half a line, half a head,
half a body, or a call whose answer they do not read, a fifth each, to a hub that may open 1,024
files. What it closes is opened again at once.
"""

from __future__ import annotations

import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.live.half_requests import posted, session, unfinished

COUNT = 5000
FILES = 1024
SECONDS = 15.0
SIZE = 128 * 1024


class Client:
    """A client that completes its requests."""

    def __init__(self, address: str, path: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._key = session((self._host, self._port))
        self._call = {"name": "get_file_info", "arguments": {"path": path}}
        self._kept = self._connection()
        self._again = 0

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=20)

    def _made(self, connection: http.client.HTTPConnection) -> float:
        head, _, body = posted(
            {"id": 1, "method": "tools/call", "params": self._call}, Mcp_Session_Id=self._key
        ).partition(b"\r\n\r\n")
        fields = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
        began = time.perf_counter()
        connection.request("POST", "/mcp", body, fields)
        answer = connection.getresponse()
        text = answer.read()
        took = time.perf_counter() - began
        assert answer.status == 200, (answer.status, text)
        assert b'"isError":false' in text, text
        return took

    def measure(self, seconds: float) -> str:
        """Call for so long, over a kept connection and over new ones; return the figures."""
        kept: list[float] = []
        fresh: list[float] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                kept.append(self._made(self._kept))
            except (ConnectionError, http.client.RemoteDisconnected):
                # As every HTTP client does whose connection was closed while it was idle.
                self._kept.close()
                self._again += 1
            connection = self._connection()
            fresh.append(self._made(connection))
            connection.close()
        again, self._again = self._again, 0
        figures = f"{_figures('kept connection', kept)}; {_figures('new connections', fresh)}"
        return f"{figures}; {again} times connected again"


def _figures(name: str, took: list[float]) -> str:
    ordered = sorted(took)
    p99 = ordered[len(ordered) * 99 // 100]
    middle, last = statistics.median(ordered), ordered[-1]
    return (
        f"{name} p50 {middle * 1e3:.2f} ms, p99 {p99 * 1e3:.2f}, max {last * 1e3:.1f}"
        f" of {len(ordered)}"
    )


class Memory:
    """The most memory that a process has had since it was last asked."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def now(self) -> int:
        """Return what it has now, in MB."""
        text = Path(f"/proc/{self._pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return 0 if found is None else int(found[1]) // 1000  # an ended process has none

    def most(self) -> int:
        """Return the most."""
        most, self._most = self._most, 0
        return most

    def _watch(self) -> None:
        with suppress(OSError):  # once nobody has to be told of its end any more
            while True:
                self._most = max(self._most, self.now())
                time.sleep(0.1)


def _run(folder: Path, count: int) -> None:
    (folder / "large.txt").write_text("x" * SIZE)
    hub = Path(sys.executable).parent / "roots-hub"
    limited = f'ulimit -n {FILES}; exec "$0" run --http 127.0.0.1:0 --root "$1"'
    errors = folder / "log"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            ["/bin/sh", "-c", limited, str(hub), str(folder)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split("http://")[1].split("/")[0]
        client, memory = Client(address, str(folder / "large.txt")), Memory(process.pid)
        client.measure(1)
        print(f"memory before: {memory.now()} MB")
        print("alone:", client.measure(SECONDS / 3))
        with unfinished(address, count, str(folder / "large.txt")) as others:
            memory.most()
            print(f"beside {count:,}:", client.measure(SECONDS))
            print(f"memory during: {memory.most()} MB at most, {memory.now()} MB at the end")
            closed = others.communicate()[0].strip()
        print(f"connections that the hub closed: {closed}")
        time.sleep(3)
        print("alone again:", client.measure(SECONDS / 3))
        print(f"memory after: {memory.now()} MB")
    finally:
        process.terminate()
        process.wait(20)
    lines = errors.read_text().splitlines()
    print(f"lines in the log: {len(lines)}")
    print(*lines[-8:], sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _run(Path(made).resolve(), int((*sys.argv[1:], COUNT)[0]))
