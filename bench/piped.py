"""A raw client of one MCP server on stdio: prepared requests out, lines in, nothing between.

It waits in the kernel, so that its own share of what is measured is two system calls.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from bench.placing import prioritise

CHUNK = 1 << 20
END = 5.0
"""Seconds that a process gets to end by itself."""


ABSENT = msgspec.Raw(b"")


class Answer(msgspec.Struct):
    """What an answer must have to count."""

    id: int
    result: msgspec.Raw = ABSENT


class WrongAnswerError(Exception):
    """An answer is missing, or says that the call failed."""


def checked(lines: Sequence[bytes], ids: range) -> None:
    """Make sure that each of `ids` was answered once, with a result that is no error.

    Raises: WrongAnswerError.
    """
    decode = msgspec.json.Decoder(Answer).decode
    seen: set[int] = set()
    for line in lines:
        if b'"method"' in line[:100]:
            continue
        answer = decode(line)
        if answer.result is ABSENT or b'"isError":true' in bytes(answer.result):
            raise WrongAnswerError(line[:500].decode(errors="replace"))
        seen.add(answer.id)
    if seen != set(ids):
        raise WrongAnswerError(f"{len(ids)} calls, {len(seen)} answers")


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Bound how long what is measured may wait, in whatever system call.

    Raises: WrongAnswerError.
    """

    def give_up(_number: int, _frame: object) -> None:
        raise WrongAnswerError(f"no answer within {seconds:g} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Piped:
    """A process that serves us on its standard streams."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        roots: Sequence[Path] | None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.began = time.perf_counter()
        self._roots = roots
        with (folder / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                # The hub looks at its own files again and again: not at those that this user has.
                env={**os.environ, "XDG_STATE_HOME": str(folder), **(environment or {})},
                start_new_session=True,
            )
        prioritise(self.process.pid)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in = self.process.stdin.fileno()
        self._out = self.process.stdout.fileno()
        self._ids = count(1_000_000)
        self._rest = b""
        self.answered = 0

    # What is said before and between the measurements

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        self._write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]

    def line(self) -> bytes:
        """Return the next line.

        Raises: WrongAnswerError at the end of the stream.
        """
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            chunk = os.read(self._out, CHUNK)
            if not chunk:
                raise WrongAnswerError(f"{self.process.args} ended")
            parts.append(chunk)
        line, self._rest = b"".join(parts).split(b"\n", 1)
        return line

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request; what the server asks meanwhile is answered.

        Raises: WrongAnswerError.
        """
        id_ = next(self._ids)
        self.send({"id": id_, "method": method, "params": params})
        while True:
            message = json.loads(self.line())
            if "method" in message:
                self._oblige(message)
            elif message["id"] == id_:
                if "result" not in message or message["result"].get("isError"):
                    raise WrongAnswerError(f"{method} {params}: {message}"[:1000])
                return message["result"]

    def _oblige(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            return
        if message["method"] == "roots/list":
            roots = [{"uri": root.as_uri(), "name": root.name} for root in self._roots or ()]
            self.send({"id": message["id"], "result": {"roots": roots}})
        else:
            self.send({"id": message["id"], "result": {}})

    def begin(self) -> None:
        """Do the handshake."""
        capabilities = {} if self._roots is None else {"roots": {"listChanged": True}}
        info = {"name": "bench", "version": "1"}
        self.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info},
        )
        self.send({"method": "notifications/initialized"})

    # Measurements

    def one_by_one(
        self, params: dict[str, Any], times: int, method: str = "tools/call"
    ) -> list[float]:
        """Ask `times` times, one after the other; return the seconds that each took."""
        head, tail, first = self._prepared(params, method)
        taken: list[float] = []
        got: list[bytes] = []
        clock, write, read, out = time.perf_counter, self._write, os.read, self._out
        for number in range(first, first + times):
            request = head + str(number).encode() + tail
            began = clock()
            write(request)
            chunk = read(out, CHUNK)
            while not chunk.endswith(b"\n"):
                got.append(chunk)
                chunk = read(out, CHUNK)
            taken.append(clock() - began)
            got.append(chunk)
        checked(b"".join(got).split(b"\n")[:-1], range(first, first + times))
        self.answered += times
        return taken

    def in_flight(self, params: dict[str, Any], at_once: int, seconds: float) -> float:
        """Keep `at_once` calls under way for `seconds`; return the answers per second."""
        head, tail, first = self._prepared(params, "tools/call")
        got: list[bytes] = []
        clock, read, out = time.perf_counter, os.read, self._out
        sent, done = first, first

        def more(number: int) -> None:
            nonlocal sent
            for id_ in range(sent, sent + number):
                self._write(head + b"%d" % id_ + tail)
            sent += number

        began = clock()
        until = began + seconds
        more(at_once)
        while done < sent:
            chunk = read(out, CHUNK)
            got.append(chunk)
            answered = chunk.count(b"\n")
            done += answered
            if answered and clock() < until:
                more(answered)
        elapsed = clock() - began
        checked(b"".join(got).split(b"\n")[:-1], range(first, sent))
        self.answered += sent - first
        return (sent - first) / elapsed

    def _prepared(self, params: dict[str, Any], method: str) -> tuple[bytes, bytes, int]:
        """Return what stands before and after the id of a request, and the first id to use."""
        self._ids = count((next(self._ids) // 10_000_000 + 1) * 10_000_000)
        body = json.dumps({"method": method, "params": params}, separators=(",", ":"))
        return b'{"jsonrpc":"2.0","id":', b"," + body[1:].encode() + b"\n", next(self._ids)

    # The end

    def end(self) -> None:
        """End the process, and all that it started."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
