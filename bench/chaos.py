"""Clients among whom all goes wrong: `python -m bench.chaos [SECONDS] [SEED]`, or `make chaos`.

Clients of both eras call one hub on HTTP. Meanwhile their roots change, connections are lost in the
middle of calls, calls are cancelled, servers crash and are killed, and the config changes or is
broken. A call may fail because its server went. But each answer must belong to its call; a path in
the client's roots is never refused, nor comes to a server of other roots; and a path outside never
passes. At the end no process may be left.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - no part of the hub
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from bench.soak import CHILD, descendants
from tests.live.plain_http import PlainClient

LEGACY, MODERN = 8, 4
SERVERS = [f"s{number}" for number in range(4)]
TIMEOUT = 90.0
"""Seconds after which a request counts as lost."""
ENDED = 5.0
"""Seconds within which the response to a cancelled call must end."""
VERSION = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    "io.modelcontextprotocol/clientInfo": {"name": "chaos", "version": "1"},
}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
}
ROUNDS = 4
"""Requests of a modern client for one call; the first asks for its roots."""


class Chaos:
    """What goes on before one hub until a moment, and what is wrong with it."""

    def __init__(self, url: str, top: Path, seed: int, seconds: float) -> None:
        self.url, self.top, self.seed = url, top, seed
        self.until = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.folders = [top / "shared" / name for name in "abcd"]
        a, b, c, d = self.folders
        self.sets = [[a], [b], [c], [d], [a, b], [c, d]]

    @property
    def goes_on(self) -> bool:
        """Whether it is not over."""
        return time.monotonic() < self.until

    def chances(self) -> Iterator[random.Random]:
        """Yield a source of chance for each that takes part, the same for the same seed."""
        number = self.seed * 1000
        while True:
            number += 1
            yield random.Random(number)  # noqa: S311 - no secret

    async def all(self, hub: int) -> None:
        """Let everybody take part until it is over."""
        chances = self.chances()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(LEGACY):
                tasks.create_task(self.legacy(next(chances)))
            for _ in range(MODERN):
                tasks.create_task(self.modern(next(chances)))
            tasks.create_task(self.kill(hub, next(chances)))
            tasks.create_task(self.change_config(next(chances)))

    def judge(self, kind: str, answer: dict[str, Any], id_: object, text: str | None) -> None:
        """Check an answer: `text` is what the server says, or None if the path is outside."""
        self.counts[kind] += 1
        result, told = answer.get("result", {}), json.dumps(answer)
        is_refused = "Access denied" in told
        said = None if result.get("isError") else result.get("content", [{}])[0].get("text")
        if answer.get("id") != id_:
            self.wrong.append(f"{kind}: the answer to another request than {id_}: {told[:300]}")
        elif text is None and said is not None:
            self.wrong.append(f"{kind}: a path outside passed: {told[:300]}")
        elif text is not None and (is_refused or said not in {None, text}):
            self.wrong.append(f"{kind}: not what was called: {told[:300]}")
        elif said is None and not is_refused:
            self.counts[f"{kind}, and the server had gone"] += 1

    # Clients

    async def legacy(self, chance: random.Random) -> None:
        """Run one legacy client after the other."""
        while self.goes_on:
            async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
                client = PlainClient(http, self.url, chance.choice(self.sets))
                await client.begin()
                for number in range(1, chance.randint(2, 25)):
                    await self.one_call(client, number, chance)
                    if chance.random() < 0.15:
                        client.roots = chance.choice(self.sets)
                        await client.tell({"method": "notifications/roots/list_changed"})
                        self.counts["roots changed"] += 1
                    await asyncio.sleep(chance.random() / 20)
                    if not self.goes_on:
                        break
                if chance.random() < 0.6:
                    await client.end()

    async def one_call(self, client: PlainClient, id_: int, chance: random.Random) -> None:
        """Make one call, or several at once."""
        server, text = chance.choice(SERVERS), str(chance.random())
        match chance.choices(("inside", "outside", "crash", "hang", "many"), (55, 20, 7, 8, 10))[0]:
            case "inside":
                path = str(chance.choice(list(client.roots)) / "f")
                called = {"name": f"{server}__mine", "arguments": {"text": text, "path": path}}
                answer = await client.request(id_, "tools/call", called)
                self.judge("a path inside", answer, id_, text)
            case "outside":
                others = [one for one in self.folders if one not in client.roots]
                path = str(chance.choice(others) / "f")
                called = {"name": f"{server}__mine", "arguments": {"text": text, "path": path}}
                answer = await client.request(id_, "tools/call", called)
                self.judge("a path outside", answer, id_, None)
            case "crash":
                called = {"name": f"{server}__crash", "arguments": {"text": text}}
                answer = await client.request(id_, "tools/call", called)
                self.judge("a call that ends its server", answer, id_, "")
            case "hang":
                await self.leave(client, id_, server, chance)
            case _:
                await asyncio.gather(*(self.echo(client, f"{id_}-{n}", server) for n in range(8)))

    async def echo(self, client: PlainClient, id_: str, server: str) -> None:
        """Make one of several calls at once."""
        called = {"name": f"{server}__echo", "arguments": {"text": id_}}
        answer = await client.request(id_, "tools/call", called)
        self.judge("calls at once", answer, id_, id_)

    async def leave(
        self, client: PlainClient, id_: int, server: str, chance: random.Random
    ) -> None:
        """Give up a call that would not be answered: by a notification, or without a word."""
        called = {"name": f"{server}__hang", "arguments": {"text": "x"}}
        call = asyncio.create_task(client.request(id_, "tools/call", called))
        await asyncio.sleep(chance.random() / 5)
        if chance.random() < 0.5:
            self.counts["connections lost"] += 1
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError, AssertionError):
                await call
            return
        self.counts["calls cancelled"] += 1
        await client.tell({"method": "notifications/cancelled", "params": {"requestId": id_}})
        try:
            await asyncio.wait_for(call, ENDED)
        except AssertionError:
            pass  # the stream has ended without an answer
        except TimeoutError:
            self.wrong.append(f"the response to a cancelled call went on for {ENDED} s")

    async def modern(self, chance: random.Random) -> None:
        """Run one modern client, with other roots in each call."""
        async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
            id_ = 0
            while self.goes_on:
                id_ += 1
                roots, folder = chance.choice(self.sets), chance.choice(self.folders)
                text = str(chance.random())
                called: dict[str, Any] = {
                    "name": f"{chance.choice(SERVERS)}__mine",
                    "arguments": {"text": text, "path": str(folder / "f")},
                    "_meta": META,
                }
                answer = await self.in_rounds(http, id_, called, roots)
                kind = "a modern client's path"
                self.judge(kind, answer, id_, text if folder in roots else None)
                await asyncio.sleep(chance.random() / 20)

    async def in_rounds(
        self, http: httpx2.AsyncClient, id_: int, called: dict[str, Any], roots: list[Path]
    ) -> dict[str, Any]:
        """Return the answer to a modern client's call, after it was asked for its roots."""
        answer: dict[str, Any] = {}
        more: dict[str, Any] = {}
        shared = [{"uri": root.as_uri()} for root in roots]
        for _ in range(ROUNDS):
            request = {"id": id_, "method": "tools/call", "params": {**called, **more}}
            headers = {**HEADERS, "mcp-name": called["name"]}
            content = json.dumps({"jsonrpc": "2.0", **request})
            got = await http.post(self.url, headers=headers, content=content)
            lines = [line[6:] for line in got.text.splitlines() if line.startswith("data: {")]
            answer = json.loads(lines[-1] if lines else got.text)
            wanted = answer.get("result", {}).get("inputRequests")
            if wanted is None:
                break
            state = answer["result"].get("requestState")
            more = {"inputResponses": {key: {"roots": shared} for key in wanted}}
            more |= {} if state is None else {"requestState": state}
        return answer

    # What goes wrong

    async def kill(self, hub: int, chance: random.Random) -> None:
        """Kill one of the hub's servers after the other."""
        while self.goes_on:
            await asyncio.sleep(chance.random() * 1.5)
            servers = list[int]()
            for pid in descendants(hub) - {hub}:
                with contextlib.suppress(OSError):
                    if CHILD.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                        servers.append(pid)
            if servers:
                with contextlib.suppress(OSError):
                    how = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
                    os.kill(chance.choice(servers), how)
                    self.counts["servers killed"] += 1

    async def change_config(self, chance: random.Random) -> None:
        """Write one config after the other; some are broken."""
        number = 0
        while self.goes_on:
            await asyncio.sleep(0.3 + chance.random() * 3)
            number += 1
            if number % 4 == 0:
                (self.top / "hub.yaml").write_text("version: 1\nserverz: {}\n", encoding="utf-8")
                await asyncio.sleep(0.3)
            write_config(self.top, number)
            self.counts["configs"] += 1


def write_config(top: Path, number: int = 0) -> None:
    """Write a config that differs for each number, in one server and in what nobody calls."""
    server: dict[str, Any] = {
        "command": sys.executable,
        "args": [CHILD],
        "idle_stop": 2,
        "timeout": 8,
        "share": "roots",
    }
    servers = dict.fromkeys(SERVERS, server)
    servers["s0"] = {**server, "env": {"NUMBER": str(number // 3)}}
    servers["s2"] = {**server, "concurrency": 2}
    roots = {"deny": [f"*.never{number % 5}"]}
    config = {"version": 1, "names": "always", "roots": roots, "servers": servers}
    (top / "hub.new").write_text(json.dumps(config), encoding="utf-8")
    (top / "hub.new").replace(top / "hub.yaml")


async def main() -> None:
    """Print what happened, and what was wrong with it."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryFile() as log:
        top = Path(made).resolve()
        write_config(top)
        argv = ["run", "--http", "127.0.0.1:0", "--config", str(top / "hub.yaml")]
        hub = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("roots-hub"),
            *argv,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=top,
        )
        assert hub.stdout is not None
        url = (await hub.stdout.readline()).decode().removeprefix("roots-hub serves ").strip()
        chaos = Chaos(url, top, seed, seconds)
        for folder in chaos.folders:
            folder.mkdir(parents=True)
            (folder / "f").touch()
        try:
            await chaos.all(hub.pid)
            processes = descendants(hub.pid) - {hub.pid}
        finally:
            hub.terminate()
            code = await hub.wait()
        await asyncio.sleep(1)
        left = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
        log.seek(0)
        tracebacks = log.read().count(b"Traceback")
    for what, count in sorted(chaos.counts.items()):
        print(f"{count:7} {what}")
    print(f"seed {seed}; exit code {code}, {len(left)} processes left, {tracebacks} tracebacks")
    for one, count in Counter(chaos.wrong).most_common(10):
        print(f"WRONG, {count} times: {one}")
    bad = bool(chaos.wrong or left or tracebacks or code)
    print("FAILED" if bad else "passed")
    sys.exit(bad)


if __name__ == "__main__":
    asyncio.run(main())
