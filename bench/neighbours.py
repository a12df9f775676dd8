"""What bad neighbours cost: `python bench/neighbours.py [ROUNDS]` prints the p99 of seven servers.

Ten servers behind one hub on stdio. One hangs at its start, one crashes in each call, one floods
its stderr: the calls of the other seven are timed with that going on and without, by turns.
"""

import asyncio  # noqa: TID251 - no part of the hub
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

CHILD = str(Path(__file__).parents[1] / "tests/live/many_child.py")
HUB = str(Path(sys.executable).with_name("roots-hub"))
WELL = [f"well{number}" for number in range(7)]
CALLS = 100
"""Calls that each of the seven gets in a round."""
MOST = 1.5
"""How many times as long a call may take."""


class Hub:
    """A hub on pipes, spoken to by one reader and many writers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "method" not in message:
                waiting = self._waiting.pop(message["id"])
                if not waiting.done():
                    waiting.set_result(message)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return its whole answer."""
        id_ = next(self._ids)
        self._waiting[id_] = asyncio.get_running_loop().create_future()
        self._send({"id": id_, "method": method, "params": params})
        return await self._waiting[id_]

    async def begin(self) -> None:
        """Do the handshake, and have all servers started that do start."""
        info = {"name": "neighbours", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        await self.request("initialize", params)
        self._send({"method": "notifications/initialized"})
        await self.request("tools/list", {})

    async def call(self, name: str, text: str = "") -> dict[str, Any]:
        """Call a tool, and return its result."""
        answer = await self.request("tools/call", {"name": name, "arguments": {"text": text}})
        return answer.get("result", {"isError": True, **answer})

    async def end(self) -> None:
        """Close the hub's input, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader


async def opened(folder: Path) -> Hub:
    """Start a hub with ten servers."""
    server = {"command": sys.executable, "args": [CHILD]}
    hanging = {"command": sys.executable, "args": [CHILD, "--hang"], "start_timeout": 2}
    servers = dict.fromkeys([*WELL, "crashing", "noisy"], server) | {"hanging": hanging}
    config = folder / "hub.yaml"
    config.write_text(json.dumps({"version": 1, "servers": servers}))
    with (folder / "hub.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *[HUB, "run", "--stdio", "--config", str(config)],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=folder,
            limit=2**24,
        )
    hub = Hub(process)
    await hub.begin()
    return hub


async def timed(hub: Hub) -> list[float]:
    """Return how many seconds each call of the seven took.

    Raises: SystemExit if one of them failed.
    """
    taken: list[float] = []

    async def one(server: str) -> None:
        for number in range(CALLS):
            began = time.perf_counter()
            result = await hub.call(f"{server}__echo", str(number))
            taken.append(time.perf_counter() - began)
            if result.get("isError"):
                raise SystemExit(f"a call of {server} failed: {result}")
            await asyncio.sleep(0.01)

    await asyncio.gather(*map(one, WELL))
    return taken


async def troubled(hub: Hub, work: Callable[[Hub], Awaitable[list[float]]]) -> list[float]:
    """Do `work` while the other three misbehave."""

    async def again(name: str) -> None:
        while True:
            await hub.call(name)
            await asyncio.sleep(0.02)

    bad = [
        asyncio.create_task(again(name))
        for name in ("hanging__echo", "crashing__crash", "noisy__noise")
    ]
    try:
        return await work(hub)
    finally:
        for task in bad:
            task.cancel()
        await asyncio.gather(*bad, return_exceptions=True)


async def main() -> None:
    """Print both p99 and their ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    calm: list[float] = []
    loud: list[float] = []
    with tempfile.TemporaryDirectory() as made:
        hub = await opened(Path(made))
        await timed(hub)
        for _ in range(rounds):
            calm += await timed(hub)
            loud += await troubled(hub, timed)
        await hub.end()
    alone, beside = (statistics.quantiles(times, n=100)[98] * 1000 for times in (calm, loud))
    ratio = beside / alone
    print(f"calls of the seven     {len(calm):>8} alone, {len(loud)} beside the three; no error")
    print(f"p99 alone              {alone:>8.2f} ms")
    print(f"p99 beside the three   {beside:>8.2f} ms")
    print(f"ratio                  {ratio:>8.2f}     (at most {MOST})")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    asyncio.run(main())
