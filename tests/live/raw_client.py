"""A client that writes what it is told to, byte for byte, and keeps what it hears as it came."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.kit.fakes import Signals
from tests.live.programs import SOON, Target, environment

Era = Literal["legacy", "modern"]
ACCEPT = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
VERSIONS: dict[Era, str] = {"legacy": "2025-11-25", "modern": "2026-07-28"}
MOST = 64 * 1024 * 1024
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def marked(text: str, marks: Mapping[str, str]) -> bytes:
    """Return a text with what stands for its marks."""
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text.encode()


class RawClient:
    """One conversation; `replies` are what it answers, by the method that it is asked with."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self.heard: list[bytes] = []
        self.answers: dict[int, bytes] = {}
        self.replies: Mapping[str, Sequence[str]] = {}
        self.signals = Signals()
        self._send = send
        self.leave: Callable[[int], None] | None = None
        """Give up a request by closing its connection, where each has one."""

    async def take(self, raw: bytes) -> None:
        """Take one message of the server's."""
        message = json.loads(raw)
        if "method" in message:
            self.heard.append(raw)
        else:
            self.answers[message["id"]] = raw
        self.signals.moved()
        if "method" in message and "id" in message:
            token = message.get("params", {}).get("_meta", {}).get("progressToken")
            marks = {"@ID@": json.dumps(message["id"]), "@TOKEN@": json.dumps(token)}
            for reply in self.replies.get(message["method"], ()):
                await self._send(marked(reply, marks))

    async def tell(self, raw: str) -> None:
        """Send a message that has no answer."""
        await self._send(raw.encode())

    async def ask(self, id_: int, method: str, params: str = "{}") -> bytes:
        """Send a request, and return its answer."""
        await self.begin(id_, method, params)
        return await self.end(id_)

    async def begin(self, id_: int, method: str, params: str = "{}") -> None:
        """Send a request."""
        await self.tell(f'{{"jsonrpc":"2.0","id":{id_},"method":"{method}","params":{params}}}')

    async def end(self, id_: int) -> bytes:
        """Return the answer to a request."""
        await self.signals.until(lambda: id_ in self.answers, SOON)
        return self.answers[id_]


@asynccontextmanager
async def raw_client(target: Target, era: Era, *, cwd: Path) -> AsyncGenerator[RawClient]:
    """Connect to a URL, or to a command over stdio; nothing is said yet."""
    opened = _over_http(target, era) if isinstance(target, str) else _over_stdio(target, cwd)
    async with opened as client:
        yield client


@asynccontextmanager
async def _over_stdio(command: Sequence[str], cwd: Path) -> AsyncGenerator[RawClient]:
    async with await anyio.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        env=environment(),
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        lines = BufferedByteReceiveStream(stdout)

        async def send(raw: bytes) -> None:
            await stdin.send(raw + b"\n")

        client = RawClient(send)

        async def read() -> None:
            while True:
                try:
                    line = await lines.receive_until(b"\n", MOST)
                except (anyio.IncompleteRead, anyio.EndOfStream):
                    return
                await client.take(line)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            yield client
            await stdin.aclose()
            with anyio.fail_after(SOON):
                await process.wait()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _over_http(url: str, era: Era) -> AsyncGenerator[RawClient]:
    async with httpx2.AsyncClient(timeout=SOON) as http, anyio.create_task_group() as tasks:
        wire = _HttpWire(http, url, era, tasks)
        client = wire.client
        yield client
        tasks.cancel_scope.cancel()


class _HttpWire:
    def __init__(self, http: httpx2.AsyncClient, url: str, era: Era, tasks: TaskGroup) -> None:
        self.client = RawClient(self.send)
        self.client.leave = self.leave
        self._http = http
        self._url = url
        self._era: Era = era
        self._tasks = tasks
        self._headers = dict(ACCEPT)
        self._posts: dict[int, anyio.CancelScope] = {}

    def leave(self, id_: int) -> None:
        self._posts[id_].cancel()

    async def send(self, raw: bytes) -> None:
        message = json.loads(raw)
        if "method" in message and "id" in message:
            self._tasks.start_soon(self._post, raw, message)
            return
        got = await self._http.post(self._url, headers=self._headers, content=raw)
        got.raise_for_status()
        if message.get("method") == "notifications/initialized":
            await self._tasks.start(self._listen)

    def _of(self, message: dict[str, Any]) -> dict[str, str]:
        if self._era == "legacy":
            return self._headers
        own = {"mcp-protocol-version": VERSIONS["modern"], "mcp-method": message["method"]}
        named = message["params"].get(NAMED.get(message["method"], ""))
        return {**self._headers, **own, **({} if named is None else {"mcp-name": named})}

    async def _post(self, raw: bytes, message: dict[str, Any]) -> None:
        scope = self._posts[message["id"]] = anyio.CancelScope()
        with scope:
            async with self._http.stream(
                "POST", self._url, headers=self._of(message), content=raw
            ) as got:
                if message["method"] == "initialize":
                    self._headers["mcp-session-id"] = got.headers["mcp-session-id"]
                    self._headers["mcp-protocol-version"] = VERSIONS[self._era]
                if "event-stream" in got.headers.get("content-type", ""):
                    await self._read(got)
                else:
                    await self.client.take(await got.aread())

    async def _listen(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with self._http.stream("GET", self._url, headers=self._headers) as got:
            assert got.status_code == 200, got
            await self._read(got, task_status.started)

    async def _read(self, got: httpx2.Response, opened: Callable[[], None] = lambda: None) -> None:
        """Take a stream's events: what a library takes for the end of a line may be in a text."""
        begun = list[bytes]()
        async for chunk in got.aiter_bytes():
            opened()
            opened = lambda: None  # noqa: E731 - once is enough
            end, *others = chunk.split(b"\n")
            begun.append(end)
            if not others:
                continue  # joined once it is whole: a line may be many MB
            lines = [b"".join(begun), *others[:-1]]
            begun = [others[-1]]
            for line in lines:
                text = line.removeprefix(b"data:").strip()
                if line.startswith(b"data:") and text:
                    await self.client.take(text)
