"""A client of the handshake era that talks with a whole hub, over either transport."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

from hub.protocol.input_requests import SAMPLING
from hub.values import JsonObject
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeLink
from tests.kit.loops import in_time
from tests.server.http.test_app import Web, echo, web
from tests.server.test_stdio import SAY, PipeTerminal, served

Transport = Literal["stdio", "http"]
Way = Literal["resolved", "cached"]
CALL = 7
"""The id of the call that a talk is about."""
QUESTIONED: JsonObject = {"sampling": {}, "elicitation": {}}


class ClientLine(Protocol):
    """A client's connection."""

    async def say(self, message: JsonObject) -> None: ...

    async def call(self, id_: int) -> None: ...

    async def heard(self) -> Any: ...


class OnStdio:
    def __init__(self, terminal: PipeTerminal) -> None:
        self._terminal = terminal

    async def say(self, message: JsonObject) -> None:
        await self._terminal.write(json.dumps(message).encode())

    async def call(self, id_: int) -> None:
        await self._terminal.ask(id_, "tools/call", SAY)

    async def heard(self) -> Any:
        return await self._terminal.heard()


class OnHttp:
    def __init__(self, site: Web, key: str) -> None:
        self._site = site
        self._key = key
        self._call = Connection()
        self._taken = 0

    async def say(self, message: JsonObject) -> None:
        assert (await self._site.post(message, self._key)).status == 202

    async def call(self, id_: int) -> None:
        self._call, self._taken = self._site.start("POST", self._key, echo(id_)), 0

    async def heard(self) -> Any:
        await self._call.began()
        if not self._call.is_stream:
            return (await self._call.over()).json
        self._taken += 1
        return (await self._call.heard(self._taken))[self._taken - 1]


class CallTalk:
    """One call under way, which the child leaves to the test to answer."""

    def __init__(self, line: ClientLine, child: FakeChild) -> None:
        self.line = line
        self.child = child

    @property
    def link(self) -> FakeLink:
        return self.child.link

    @property
    def call(self) -> Any:
        """The call as the child got it."""
        return self.link.requests("tools/call")[-1]

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send a notification to the hub."""
        await self.line.say({"jsonrpc": "2.0", "method": method, "params": params})

    async def reply(self, question: Any, result: JsonObject) -> None:
        """Answer a request of the hub's."""
        await self.line.say({"jsonrpc": "2.0", "id": question["id"], "result": result})

    async def asked(self, id_: str, **meta: Any) -> Any:
        """Let the child ask, and return the question that the client gets."""
        params: JsonObject = {"messages": [], "maxTokens": 1}
        self.link.ask(id_, SAMPLING, {**params, "_meta": meta} if meta else params)
        question = await self.line.heard()
        assert question["method"] == SAMPLING
        return question


@asynccontextmanager
async def talking(transport: Transport, way: Way) -> AsyncGenerator[CallTalk]:
    """Begin a call; on a cached route, its tool has been called before."""
    child = FakeChild(ECHO)
    async with _line(transport, child) as line:
        with in_time():
            if way == "cached":
                await line.call(CALL - 1)
                assert (await line.heard())["id"] == CALL - 1
            child.answers["tools/call"] = SILENT
            await line.call(CALL)
            await (await child.connected()).request("tools/call", nth=1 + (way == "cached"))
            yield CallTalk(line, child)


@asynccontextmanager
async def _line(transport: Transport, child: FakeChild) -> AsyncGenerator[ClientLine]:
    if transport == "stdio":
        async with served(child, hurried_answers=0) as terminal:  # the call has none at the end
            await terminal.shake_hands(QUESTIONED)
            yield OnStdio(terminal)
        return
    async with web(child) as site:
        yield OnHttp(site, await site.session(QUESTIONED))
