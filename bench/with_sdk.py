"""What users run: the SDK's client and a server made with the SDK, directly and through others."""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ListRootsResult, Root
from pydantic import FileUrl

from bench.cases import ECHO, PLACES, Params, folder_in, reading
from bench.figures import Table, Target
from bench.on_stdio import BARE_ROW, PATH, PLAIN
from bench.piped import WrongAnswerError
from bench.placing import children, place, place_anywhere, place_us
from bench.programs import HERE, RELAY, hub_config, hub_on_stdio, keep_memory

CHILD = [sys.executable, str(HERE / "sdk_child.py")]
ROUNDS = 7
CALLS = 150
DIRECT = "direct"
LEGACY = "legacy"
KEPT = "hub, one path, roots kept for a minute"
"""With `roots.reuse`, so that modern clients are not asked for their roots with each call."""
WHERE: dict[str, bool | None] = {"left to the scheduler": None, **PLACES}
"""Where the programs run: first as users run them, then with less chance in it."""
Tables = dict[bool | None, Table]


async def measured(tables: Tables, stack: ExitStack, mode: Any) -> None:
    """Start all anew, and measure clients of one era once."""
    folder = folder_in(stack)

    async def roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(folder.as_uri()))])

    def client(argv: list[str]) -> Client:
        server = StdioServerParameters(command=argv[0], args=argv[1:], cwd=folder.parent)
        return Client(stdio_client(server, log), mode=mode, list_roots_callback=roots)

    config = hub_config(folder.parent, {"child": CHILD})
    (folder.parent / "kept").mkdir()
    keeping = hub_config(folder.parent / "kept", {"child": CHILD}, roots={"reuse": 60})
    place_anywhere()
    log = stack.enter_context((folder.parent / "stderr.log").open("a"))
    async with (
        client(CHILD) as direct,
        client([*RELAY, *CHILD]) as relay,
        client(hub_on_stdio(config)) as hub,
        client(hub_on_stdio(keeping)) as kept,
    ):
        path = reading(folder)
        rows = {
            DIRECT: (direct, ECHO),
            "direct, one path": (direct, path),
            BARE_ROW: (relay, ECHO),
            PLAIN: (hub, ECHO),
            PATH: (hub, path),
        }
        if mode != LEGACY:
            rows[KEPT] = (kept, path)
        for connected, call in rows.values():
            await p50(connected, call)
        for apart, table in tables.items():
            if apart is not None:
                place_all(apart=apart)
            for row, (connected, call) in rows.items():
                table.add(row, await p50(connected, call))


def place_all(*, apart: bool) -> None:
    """Put this process and all that it started where they are measured."""
    place_us()
    for pid in children(os.getpid()):
        place(pid, apart=apart)


async def p50(client: Client, call: Params) -> float:
    """Return the median of some calls in microseconds.

    Raises: WrongAnswerError.
    """
    taken: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        result = await client.call_tool(call["name"], call["arguments"])
        taken.append(time.perf_counter() - began)
        if result.is_error:
            raise WrongAnswerError(str(result))
    return statistics.median(taken) * 1e6


def lines(rounds: int) -> list[str]:
    """Return the tables of both eras.

    A process is faster or slower than another of the same program by up to a sixth for as long as
    it lives, so each round has processes of its own, and there are twice as many.
    """
    found: list[str] = []
    for era, mode in {"legacy": LEGACY, "modern": "auto"}.items():
        tables: Tables = {
            apart: Table(f"SDK client and SDK child, {era}, stdio, {where}", "µs, p50", DIRECT)
            for where, apart in WHERE.items()
        }
        for _ in range(2 * rounds):
            try:
                with ExitStack() as stack:
                    anyio.run(measured, tables, stack, mode)
            except* Exception as exc:  # noqa: BLE001 - whatever fails in the SDK is to be shown
                for table in tables.values():
                    table.failed["all"] = str(exc.exceptions[0])[:300]
        for table in tables.values():
            table.targets = dict.fromkeys((PLAIN, PATH, KEPT), Target(1.15))
            found += table.lines()
    return found


def main() -> None:
    """Print the tables."""
    keep_memory()
    place_us()
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)))


if __name__ == "__main__":
    main()
