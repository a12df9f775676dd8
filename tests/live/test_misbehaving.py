"""A server that misbehaves beside one that does not, behind a real hub on stdio and over HTTP.

However the one goes on, all calls of the other are answered, SIGTERM ends the hub, no process is
left, and the log stays small. `make misbehaving` says how long all that takes.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.file import FileReadStream, FileWriteStream

from tests.kit.warm import WARM_HUB, AnyProcess, popen
from tests.live.misbehaving_child import FLOODS
from tests.live.misbehaving_remote import REMOTE_KINDS
from tests.live.programs import MARK, SOON, alive, config_file, environment
from tests.live.raw_client import RawClient, raw_client

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are told by /proc")

CHILD = str(Path(__file__).parent / "misbehaving_child.py")
REMOTE = str(Path(__file__).parent / "misbehaving_remote.py")
CALLS = 60
MOST_LOGGED = 300_000
"""Bytes: what a server may have logged at once and in some seconds, many times over."""
DRAIN = 0.2
"""Seconds that the hub waits for calls at its end, which some of these servers never answer."""
KINDS = [kind for kind in FLOODS if kind not in {"none", "evading forks"}]
"""Without those that are told by another mark than these tests have (see test_orphans.py)."""
ENDED = {"junk lines", "blank lines", "endless line", "progress flood", "wrong ids"}
"""The kinds that go on until the hub ends them, and say nothing that is of use."""
Transport = Literal["stdio", "http"]


class HubOfGoodAndBad:
    """A hub before `good` and `bad`; `client` is one client of it."""

    def __init__(self, process: AnyProcess, mark: str, errors: Path) -> None:
        self.process = process
        self.mark = mark
        self.errors = errors
        self.client: RawClient
        self._ids = 1000

    async def begin(self, name: str) -> int:
        """Begin a call of a tool without arguments; return its id."""
        self._ids += 1
        await self.client.begin(
            self._ids, "tools/call", json.dumps({"name": name, "arguments": {"text": "hello"}})
        )
        return self._ids

    async def call(self, name: str) -> dict[str, Any]:
        """Return a tool's result."""
        return json.loads(await self.client.end(await self.begin(name)))["result"]

    async def state_of(self, server: str) -> dict[str, Any]:
        """Return what `get-roots` says of a server."""
        said = json.loads((await self.call("get-roots"))["content"][0]["text"])
        return next(one for one in said["servers"] if one["name"] == server)

    async def ended(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.process.terminate()
        return await anyio.to_thread.run_sync(self.process.wait, SOON)


@contextmanager
def entry_of(kind: str) -> Generator[dict[str, Any]]:
    """Yield the config of a server of this kind; one that is remote runs meanwhile."""
    if kind not in REMOTE_KINDS:
        yield {"command": sys.executable, "args": ["-I", "-S", CHILD, kind]}
        return
    argv = [sys.executable, "-I", "-S", REMOTE, kind]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as remote:  # noqa: S603 - ours
        assert remote.stdout is not None
        try:
            yield {"url": remote.stdout.readline().strip()}
        finally:
            remote.kill()


@contextmanager
def started(
    kind: str, transport: Transport, folder: Path, **more: Any
) -> Generator[HubOfGoodAndBad]:
    with entry_of("none") as good, entry_of(kind) as bad:
        servers = {"good": good, "bad": {**bad, **more.get("bad", {})}}
        with hub_before(servers, transport, folder) as hub:
            yield hub


@contextmanager
def hub_before(
    servers: dict[str, Any], transport: Transport, folder: Path
) -> Generator[HubOfGoodAndBad]:
    config = config_file(
        folder,
        servers,
        roots={"fallback": [str(folder)]},
        audit={"file": str(folder / "audit")},
        drain=DRAIN,
    )
    how = ["--stdio"] if transport == "stdio" else ["--http", "127.0.0.1:0"]
    mark, errors = secrets.token_hex(8), folder / "errors"
    with (
        errors.open("wb") as stderr,
        popen(
            [WARM_HUB, "run", *how, "--config", config],
            cwd=folder,
            env=environment(**{MARK: mark}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
        ) as process,
    ):
        try:
            yield HubOfGoodAndBad(process, mark, errors)
        finally:
            process.kill()


@asynccontextmanager
async def hub_beside(
    kind: str, transport: Transport, folder: Path, **more: Any
) -> AsyncGenerator[HubOfGoodAndBad]:
    with started(kind, transport, folder, **more) as hub:
        assert hub.process.stdin is not None
        assert hub.process.stdout is not None
        if transport == "http":
            line = await anyio.to_thread.run_sync(hub.process.stdout.readline)
            url = line.decode().removeprefix("roots-hub serves ").strip()
            async with raw_client(url, "legacy", cwd=folder) as hub.client:
                await shake_hands(hub.client)
                yield hub
            return
        async with over_pipes(hub.process) as hub.client:
            await shake_hands(hub.client)
            yield hub


@asynccontextmanager
async def over_pipes(process: AnyProcess) -> AsyncGenerator[RawClient]:
    """Speak to a hub on stdio; what it says is read to the end of the hub."""
    assert process.stdin is not None
    assert process.stdout is not None
    out = FileWriteStream(process.stdin)
    lines = BufferedByteReceiveStream(FileReadStream(process.stdout))

    async def send(raw: bytes) -> None:
        await out.send(raw + b"\n")

    client = RawClient(send)

    async def read() -> None:
        while True:
            try:
                line = await lines.receive_until(b"\n", 1 << 30)
            except (anyio.IncompleteRead, anyio.EndOfStream):
                return
            await client.take(line)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        try:
            yield client
        finally:
            process.kill()  # which ends the thread that reads
            tasks.cancel_scope.cancel()


async def shake_hands(client: RawClient) -> None:
    info = {"name": "misbehaving", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    await client.ask(1, "initialize", json.dumps(hello))
    await client.tell('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    await client.ask(2, "tools/list")


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("kind", [*KINDS, *REMOTE_KINDS])
async def test_one_that_misbehaves_harms_nobody_else(
    kind: str, transport: Transport, tmp_path: Path
) -> None:
    with anyio.fail_after(SOON):
        async with hub_beside(kind, transport, tmp_path) as hub:
            assert (await hub.call("good__echo"))["content"][0]["text"] == "done"
            await hub.begin("bad__provoke")
            for number in range(CALLS):
                if number % 20 == 0:
                    await hub.begin("bad__echo")
                    await hub.begin("bad__provoke")
                answer = await hub.call("good__echo")
                assert answer["content"] == [{"type": "text", "text": "done"}]
            assert await hub.ended() == 0
            assert alive(hub.mark) == []
            audit = (tmp_path / "audit").stat().st_size
            assert hub.errors.stat().st_size + audit < MOST_LOGGED + CALLS * 1000


@pytest.mark.parametrize("kind", sorted(ENDED))
async def test_one_that_says_only_what_is_of_no_use_is_ended_with_the_reason(
    kind: str, tmp_path: Path
) -> None:
    with anyio.fail_after(SOON):
        async with hub_beside(kind, "stdio", tmp_path) as hub:
            pid = (await hub.call("bad__pid"))["content"][0]["text"]
            waiting = await hub.begin("bad__hang")
            await hub.begin("bad__provoke")
            said = json.loads(await hub.client.end(waiting))["result"]
            assert said["isError"]
            reason = "the hub ended it because it misbehaved: "
            assert reason in said["content"][0]["text"]
            state = await hub.state_of("bad")
            assert state["state"] == "down"
            assert reason in state["reason"]
            again = (await hub.call("bad__pid"))["content"][0]["text"]
            assert again != pid, "the next call starts it again"
            assert await hub.ended() == 0
            assert reason in hub.errors.read_text()
            assert alive(hub.mark) == []


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_one_that_crashed_is_down_though_a_descendant_holds_its_stdout(
    transport: Transport, tmp_path: Path
) -> None:
    with anyio.fail_after(SOON):
        async with hub_beside("held stdout", transport, tmp_path) as hub:
            pid = (await hub.call("bad__pid"))["content"][0]["text"]
            waiting = await hub.begin("bad__hang")
            began = time.monotonic()
            said = await hub.call("bad__provoke")
            assert said["content"][0]["text"] == "done", "it was written before the end"
            failed = json.loads(await hub.client.end(waiting))["result"]
            assert time.monotonic() - began < SOON  # not the minutes that a call may take
            assert failed["isError"]
            assert "exited with code 3" in failed["content"][0]["text"]
            state = await hub.state_of("bad")
            assert state["state"] == "down"
            assert "exited with code 3" in state["reason"]
            again = (await hub.call("bad__pid"))["content"][0]["text"]
            assert again != pid
            assert [line for line in alive(hub.mark) if "sleep" in line] == []
            assert await hub.ended() == 0


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_call_that_is_not_answered_does_not_keep_the_hub(
    how: signal.Signals, transport: Transport, tmp_path: Path
) -> None:
    with anyio.fail_after(SOON):
        async with hub_beside("ignored TERM", transport, tmp_path) as hub:
            await hub.begin("bad__hang")
            await hub.call("good__echo")
            hub.process.send_signal(how)
            assert await anyio.to_thread.run_sync(hub.process.wait, SOON) == 0
            assert alive(hub.mark) == []
