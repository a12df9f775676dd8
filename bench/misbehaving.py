"""What a misbehaving server costs the others: `python -m bench.misbehaving [KIND...]`.

A hub stands before two servers. One answers, and its calls are timed: alone, then while the other
misbehaves in one of many ways; then the hub gets SIGTERM. Each kind has hubs of its own, on stdio
and over HTTP, in rounds, so that what is compared was measured within the same seconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.figures import machine
from bench.piped import CHUNK, WrongAnswerError
from bench.placing import prioritise
from bench.posting import Session
from bench.programs import (
    HttpProgram,
    exit_on_sigterm,
    free_port,
    hub_config,
    hub_on_http,
    hub_on_stdio,
)

LIVE = Path(__file__).parents[1] / "tests/live"
CHILD, REMOTE = (str(LIVE / f"misbehaving_{one}.py") for one in ("child", "remote"))
REMOTE_KINDS = (
    "compressed bomb",
    "compressed events",
    "tiny chunks",
    "interim responses",
    "layers of gzip",
    "error page",
    "huge refusal",
)
"""The kinds of servers behind a URL."""
KINDS = (
    "none",
    "junk lines",
    "endless line",
    "progress flood",
    "notification flood",
    "closed stdout",
    "held stdout",
    "wrong ids",
    "double answers",
    "ignored TERM",
    "evading forks",
    "huge results",
    "huge errors",
    "changing tools",
    "blank lines",
    "stderr flood",
    "unread stdin",
    "nested JSON",
    *REMOTE_KINDS,
)
ROUNDS = int(os.environ.get("BENCH_ROUNDS") or 2)
ALONE, BESIDE = 1.5, 5.0
"""Seconds that the calls are timed for."""
EVERY = 0.002
"""Seconds between calls: those that a stall keeps from beginning count too."""
SETTLED = 1.0
"""Seconds after which the other server misbehaves for certain."""
PROVOKE_EVERY = 0.25
"""Seconds between calls of the other one's tool that begins it: one that was ended begins anew."""
PATIENCE, END = 30.0, 60.0
"""Seconds that an answer, and the end, may take at most."""
GOOD: dict[str, Any] = {"name": "good__echo", "arguments": {"text": "hello"}}
BAD: dict[str, Any] = {"name": "bad__provoke", "arguments": {}}
SLOWER, ENDED, LOGGED = 2.0, 2.0, 1_000_000
"""What is wanted: times as long at most, seconds, bytes a minute."""
_SUBREAPER = 36
HERE, OTHER = (str(place(os.sched_getaffinity(0))) for place in (min, max))
"""The CPU of the client, the hub and the server that answers; that of the one that misbehaves.

Left to the scheduler a call takes now twice as long as then, depending on who runs beside whom.
"""


class Hub(Protocol):
    """A hub of one client."""

    process: subprocess.Popen[bytes]

    def call(self) -> float:
        """Call the server that answers; return the seconds that it took."""
        ...

    def provoke(self) -> None:
        """Have the other one called, whose answer nobody waits for."""
        ...

    def close(self) -> None:
        """Let go what is held here; the hub has ended."""
        ...


class OnStdio:
    """A hub on stdio: whatever is in the pipe before an answer has to be read."""

    def __init__(self, config: Path) -> None:
        with (config.parent / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                hub_on_stdio(config),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=config.parent,
            )
        prioritise(self.process.pid)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._id = 10_000_000
        info = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self._answer(self._send("initialize", hello))
        self._write({"method": "notifications/initialized"})
        self._answer(self._send("tools/list", {}))

    def _write(self, message: dict[str, Any]) -> None:
        view = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        while view:
            view = view[os.write(self._in, view) :]

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._id += 1
        self._write({"id": self._id, "method": method, "params": params})
        return self._id

    def _answer(self, id_: int) -> bytes:
        """Return what came with the answer; what else comes is passed over."""
        mark, tail = b'"id":%d' % id_, b""
        until = time.monotonic() + PATIENCE
        while True:
            if not select.select([self._out], [], [], max(0.0, until - time.monotonic()))[0]:
                raise WrongAnswerError(f"no answer within {PATIENCE:g} s")
            chunk = os.read(self._out, CHUNK)
            if not chunk:
                raise WrongAnswerError("the hub ended")
            found = tail + chunk
            at = found.rfind(mark)
            if at >= 0 and b"\n" in found[at:]:
                return found[found.rfind(b"\n", 0, at) + 1 :]
            tail = found[-4096:] if at < 0 else found[max(0, at - 64) :]

    def call(self) -> float:
        began = time.perf_counter()
        answer = self._answer(self._send("tools/call", GOOD))
        taken = time.perf_counter() - began
        if b'"done"' not in answer:
            raise WrongAnswerError(answer[:500].decode(errors="replace"))
        return taken

    def provoke(self) -> None:
        self._send("tools/call", BAD)

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


class OnHttp:
    """A hub over HTTP; a process of its own provokes, and reads what that brings."""

    def __init__(self, config: Path) -> None:
        port = free_port()
        self._hub = HttpProgram(hub_on_http(config, port), port, folder=config.parent)
        self._hub.ready()
        self.process = self._hub.process
        self._session = Session(self._hub.address, "/mcp")
        self._session.begin()
        self._session.request("tools/list", {})
        self._session.prepare(GOOD)
        self._id = 10_000_000
        self._provoker: subprocess.Popen[bytes] | None = None

    def call(self) -> float:
        self._id += 1
        began = time.perf_counter()
        self._session.call(self._id)
        while not (found := self._session.arrived(0)):
            pass
        taken = time.perf_counter() - began
        if b'"done"' not in found[0]:
            raise WrongAnswerError(found[0][:500].decode(errors="replace"))
        return taken

    def provoke(self) -> None:
        if self._provoker is None:
            port = str(self._hub.address[1])
            self._provoker = subprocess.Popen(
                [sys.executable, "-m", "bench.misbehaving", ":", port]
            )

    def close(self) -> None:
        self._session.close()
        if self._provoker is not None:
            self._provoker.kill()
            self._provoker.wait()


def keep_provoking(port: int) -> None:
    """Call the tool again and again, on a session of its own."""
    session = Session(("127.0.0.1", port), "/mcp")
    session.begin()
    while True:
        try:
            session.request("tools/call", BAD)
        except WrongAnswerError as exc:
            if "closed" in str(exc):
                return
        except OSError:
            return
        time.sleep(PROVOKE_EVERY)


@dataclass
class Row:
    """What was measured of one kind on one transport."""

    kind: str
    transport: str
    alone: list[float] = field(default_factory=list[float])
    beside: list[float] = field(default_factory=list[float])
    ended: list[float] = field(default_factory=list[float])
    logged: list[float] = field(default_factory=list[float])
    left: list[int] = field(default_factory=list[int])
    failed: str = ""

    def line(self) -> str:
        """Return it as a row of the table."""
        if self.failed:
            return f"| {self.kind} | {self.transport} | {self.failed} | | | | | | |"
        ratios = [two / one for one, two in zip(self.alone, self.beside, strict=True)]
        ratio, ended = statistics.median(ratios), max(self.ended)
        logged, left = max(self.logged), max(self.left)
        met = ratio <= SLOWER and ended <= ENDED and logged <= LOGGED and not left
        figures = (
            f"{statistics.median(self.alone) * 1000:.2f}",
            f"{statistics.median(self.beside) * 1000:.2f}",
            f"{ratio:.2f}",
            f"{ended:.2f}",
            f"{logged / 1000:,.0f}",
            str(left),
            "met" if met else "MISSED",
        )
        return f"| {self.kind} | {self.transport} | {' | '.join(figures)} |"


TRANSPORTS: dict[str, Callable[[Path], Hub]] = {"stdio": OnStdio, "HTTP": OnHttp}


def measure(row: Row) -> None:
    """Take one round of a row."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(os.path.realpath(made))
        remote = behind_a_url(row.kind) if row.kind in REMOTE_KINDS else None
        servers: dict[str, Sequence[str]] = {
            "good": [sys.executable, CHILD, "none", HERE],
            "bad": [sys.executable, CHILD, row.kind, OTHER] if remote is None else said_by(remote),
        }
        # Calls hang at its end, too: the end itself is measured, not how long they are waited for.
        config = hub_config(folder, servers, roots={"fallback": [str(folder)]}, drain=0)
        hub = TRANSPORTS[row.transport](config)
        try:
            timed(hub, 0.3)
            alone = timed(hub, ALONE)
            before, began = log_of(folder), time.monotonic()
            beside = timed(hub, SETTLED + BESIDE, provoking=True)
            logged = (log_of(folder) - before) / (time.monotonic() - began) * 60
            row.ended.append(ended(hub.process))
            row.alone.append(statistics.median(alone))
            row.beside.append(statistics.median(beside))
            row.logged.append(logged)
        finally:
            hub.process.kill()
            hub.process.wait()
            hub.close()
            if remote is not None:
                remote.kill()
                remote.wait()
            row.left.append(swept())


def behind_a_url(kind: str) -> subprocess.Popen[bytes]:
    """Start a remote server, which is not the hub's to end."""
    return subprocess.Popen([sys.executable, REMOTE, kind, OTHER], stdout=subprocess.PIPE)


def said_by(remote: subprocess.Popen[bytes]) -> str:
    """Return the URL that a remote server says."""
    assert remote.stdout is not None
    return remote.stdout.readline().decode().strip()


def timed(hub: Hub, seconds: float, *, provoking: bool = False) -> list[float]:
    """Return the seconds that each call took, and those that it kept from beginning would have."""
    taken: list[float] = []
    began = time.perf_counter()
    provoked = began if provoking else began + 2 * seconds
    counts_from = began + SETTLED if provoking else began
    while (now := time.perf_counter()) < began + seconds:
        if now >= provoked:
            provoked = now + PROVOKE_EVERY
            hub.provoke()
        took = hub.call()
        if now >= counts_from:
            taken.append(took)
            taken += [took - late * EVERY for late in range(1, int(took / EVERY) + 1)]
        time.sleep(max(0.0, now + EVERY - time.perf_counter()))
    return taken


def log_of(folder: Path) -> int:
    """Return the bytes that a hub has logged; the audit of the calls that are timed left out."""
    audit = folder / "audit.jsonl"
    lines = audit.read_bytes().splitlines(keepends=True) if audit.exists() else []
    others = sum(len(line) for line in lines if b'"good"' not in line)
    return (folder / "stderr.log").stat().st_size + others


def ended(process: subprocess.Popen[bytes]) -> float:
    """Send SIGTERM; return the seconds until the process has ended."""
    began = time.monotonic()
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END)
    return time.monotonic() - began


def be_subreaper() -> None:
    """Have all processes that lose their parent become this one's children."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def swept() -> int:
    """End the processes that are left, and return how many there were."""
    found: set[int] = set()
    until = time.monotonic() + 1.0
    while left := children():
        found |= left
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return len(found)


def children() -> set[int]:
    """Return this process' children that have not ended."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == os.getpid() and state not in "ZX":
                    found.add(int(entry.name))
    return found


def run(kinds: Sequence[str]) -> None:
    """Print the table."""
    be_subreaper()
    exit_on_sigterm()
    os.sched_setaffinity(0, {int(HERE)})
    print(machine(), "\n")
    print("| the other server | transport | p50 alone, ms | beside it, ms | × | end, s | ", end="")
    print("log, kB a minute | left | wanted |\n|---|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        rows = [Row(kind, transport) for transport in TRANSPORTS]
        for _ in range(ROUNDS):
            for row in rows:
                try:
                    measure(row)
                except (WrongAnswerError, OSError) as exc:
                    row.failed = " ".join(str(exc).split())[:200]
        for row in rows:
            print(row.line(), flush=True)


def main() -> None:
    """Print the table, of all kinds or those that are named."""
    if sys.argv[1:2] == [":"]:
        keep_provoking(int(sys.argv[2]))
        return
    kinds = sys.argv[1:] or KINDS
    if unknown := set(kinds) - set(KINDS):
        sys.exit(f"no such ways: {', '.join(unknown)}; there are: {', '.join(KINDS)}")
    run(kinds)


if __name__ == "__main__":
    main()
