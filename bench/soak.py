"""What is left of many clients: `python bench/soak.py [SECONDS]`, or `make soak`.

200 clients come and go before one hub on HTTP, with 6 different sets of roots, over 5 servers. Some
change their roots, some end their session, some just vanish. When all are gone, processes, file
descriptors and memory of the hub must be back at what they were, and no call may have been lost.
"""

import asyncio  # noqa: TID251 - no part of the hub
import contextlib
import json
import random
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.live.plain_http import PlainClient

CHILD = str(Path(__file__).parents[1] / "tests/live/many_child.py")
IDLE_SESSION = 30
"""Seconds after which the session of a client that vanished ends; without this, half an hour.

On a busy machine a client that goes on may take many seconds to its next call.
"""
HUB = f"""
from functools import partialmethod
from hub.cli.main import main
from hub.server.http.app import HttpLimits, HttpServer
limits = HttpLimits(session_idle={IDLE_SESSION})
HttpServer.__init__ = partialmethod(HttpServer.__init__, limits=limits)
raise SystemExit(main())
"""
SERVERS = [f"s{number}" for number in range(5)]
CLIENTS = 200
AT_ONCE = 24
IDLE_STOP = 3
SETTLE = 30.0
"""Seconds that the hub gets to come to rest once the last session has ended."""
MORE_MEMORY = 24.0
"""MB that the hub may have more in the end than after its first clients."""


@dataclass
class Figures:
    """What there is of a hub."""

    processes: int
    files: int
    memory: float

    def __str__(self) -> str:
        return f"{self.processes} processes, {self.files} files, {self.memory:.0f} MB"


@dataclass
class Tally:
    """What the clients saw."""

    clients: int = 0
    calls: int = 0
    moves: int = 0
    vanished: int = 0
    lost: list[str] = field(default_factory=list[str])


def figures(pid: int) -> Figures:
    """Return what there is now of the hub `pid`."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Figures(len(descendants(pid)), files, int(found[1]) / 1024)


def descendants(pid: int) -> set[int]:
    """Return the hub and all that descends from it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found


async def visit(url: str, sets: list[list[Path]], chance: random.Random, tally: Tally) -> None:
    """Run one client: connect, call, perhaps change roots, and disconnect."""
    roots = chance.choice(sets)
    async with httpx2.AsyncClient(timeout=60.0) as http:
        client = PlainClient(http, url, roots)
        try:
            await client.begin()
            for turn in range(chance.randint(1, 12)):
                await one_call(client, turn + 1, chance, tally)
                await asyncio.sleep(chance.random() / 5)
                if chance.random() < 0.1:
                    client.roots = chance.choice(sets)
                    await client.tell({"method": "notifications/roots/list_changed"})
                    tally.moves += 1
            if chance.random() < 0.7:
                await client.end()
            else:
                tally.vanished += 1
        except (AssertionError, httpx2.HTTPError) as exc:
            tally.lost.append(f"{type(exc).__name__}: {exc}")
    tally.clients += 1


async def one_call(client: PlainClient, id_: int, chance: random.Random, tally: Tally) -> None:
    """Make one call, and check its answer."""
    text = str(chance.random())
    path = chance.choice(list(client.roots)) / "f"
    name = f"{chance.choice(SERVERS)}__mine"
    got = await client.call(id_, name, text=text, path=str(path))
    tally.calls += 1
    if got != text:
        tally.lost.append(got)


async def settled(pid: int) -> Figures:
    """Return what there is of the hub once no child is left, or after `SETTLE` seconds."""
    await asyncio.sleep(IDLE_SESSION + IDLE_STOP)
    until = time.monotonic() + SETTLE
    before = figures(pid)
    while time.monotonic() < until:
        await asyncio.sleep(IDLE_STOP + 1)
        now = figures(pid)
        if (now.processes, now.files) == (before.processes, before.files):
            return now
        before = now
    return before


async def crowd(url: str, sets: list[list[Path]], seconds: float) -> Tally:
    """Let clients come and go until there were `CLIENTS` and the time is over."""
    tally, chance, until = Tally(), random.Random(5), time.monotonic() + seconds  # noqa: S311 - no secret
    begun = 0

    async def places() -> None:
        nonlocal begun
        while begun < CLIENTS or time.monotonic() < until:
            begun += 1
            await visit(url, sets, chance, tally)

    await asyncio.gather(*(places() for _ in range(AT_ONCE)))
    return tally


async def main() -> None:
    """Print what was there before, at the end, and what the clients saw."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    with tempfile.TemporaryDirectory() as made:
        top = Path(made).resolve()
        folders = [top / name for name in "abcd"]
        for folder in folders:
            folder.mkdir()
            (folder / "f").touch()
        a, b, c, d = folders
        sets = [[a], [b], [c], [d], [a, b], [c, d]]
        server = {
            "command": sys.executable,
            "args": [CHILD],
            "idle_stop": IDLE_STOP,
            "share": "roots",
        }
        (top / "hub.yaml").write_text(
            json.dumps({"version": 1, "servers": dict.fromkeys(SERVERS, server)})
        )
        with (top / "hub.log").open("wb") as log:
            hub = await asyncio.create_subprocess_exec(
                *[
                    sys.executable,
                    "-c",
                    HUB,
                    "run",
                    "--http",
                    "127.0.0.1:0",
                    "--config",
                    str(top / "hub.yaml"),
                ],
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=top,
            )
        assert hub.stdout is not None
        url = (await hub.stdout.readline()).decode().removeprefix("roots-hub serves ").strip()
        start = figures(hub.pid)
        warm_up = await crowd(url, sets, 10)
        warm = await settled(hub.pid)
        tally = await crowd(url, sets, seconds)
        peak = figures(hub.pid)
        end = await settled(hub.pid)
        hub.terminate()
        code = await hub.wait()
    print(
        f"clients   {tally.clients} ({tally.vanished} vanished, roots changed {tally.moves} times)"
    )
    print(f"calls     {tally.calls}, lost {len(warm_up.lost) + len(tally.lost)}")
    print(f"start     {start}")
    print(f"warm      {warm}")
    print(f"at work   {peak}")
    print(f"end       {end}; exit code {code}")
    for lost in tally.lost[:5]:
        print(f"lost: {lost[:300]}")
    # The hub's watchdog comes with the first child, and stays.
    grown = end.processes > start.processes + 1 or end.files > warm.files + 2
    bad = grown or end.memory > warm.memory + MORE_MEMORY or tally.lost or warm_up.lost
    print("FAILED" if bad else "passed")
    sys.exit(bool(bad))


if __name__ == "__main__":
    asyncio.run(main())
