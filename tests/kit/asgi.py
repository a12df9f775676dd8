"""One HTTP request to an ASGI application: the test gives its messages, the response is kept."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

import anyio
from starlette.types import ASGIApp, Message, Scope

from hub.values import Json
from tests.kit.fakes import Signals
from tests.kit.loops import in_time


class Connection:
    """A client's end of one request; until it disconnects, it waits for the response."""

    def __init__(self, *parts: bytes) -> None:
        self.sent: list[Message] = []
        self.signals = Signals()
        self.accepts = anyio.Event()
        self.accepts.set()
        """Cleared (replaced) by a test whose client does not read."""
        self.sends = anyio.Event()
        self.sends.set()
        """Cleared (replaced) by a test whose client sends its body later."""
        self.is_awaited = False
        self._parts = deque(parts or (b"",))
        self._gone = anyio.Event()
        self._served = anyio.Event()

    async def serve(self, app: ASGIApp, scope: Scope) -> None:
        """Let the application answer."""
        await app(scope, self.receive, self.send)
        self._served.set()

    async def served(self) -> None:
        """Wait until the application is done with the request."""
        with in_time():
            await self._served.wait()

    async def receive(self) -> Message:
        if self._parts:
            self.is_awaited = True
            self.signals.moved()
            await self.sends.wait()
            part = self._parts.popleft()
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.accepts.wait()
        self.sent.append(message)
        self.signals.moved()

    def disconnect(self) -> None:
        self._gone.set()

    @property
    def is_over(self) -> bool:
        return bool(self.sent) and not self.sent[-1].get("more_body", "status" in self.sent[-1])

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def is_stream(self) -> bool:
        return self.headers["content-type"] == "text/event-stream"

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages of an event stream; comments and events without data are not among them."""
        return [json.loads(data) for data in self._fields(b"data") if data]

    @property
    def ids(self) -> list[str]:
        """The ids of an event stream's events, those without data among them."""
        return [id_.decode() for id_ in self._fields(b"id")]

    def _fields(self, name: bytes) -> list[bytes]:
        begins = name + b": "
        return [
            line.removeprefix(begins) for line in self.body.splitlines() if line.startswith(begins)
        ]

    async def awaited(self) -> None:
        """Wait until the application waits for the body."""
        await self.signals.until(lambda: self.is_awaited)

    async def began(self) -> None:
        await self.signals.until(lambda: bool(self.sent))

    async def heard(self, count: int) -> list[Any]:
        """Wait for so many events."""
        await self.signals.until(lambda: len(self.sent) > 1 and len(self.events) >= count)
        return self.events

    async def over(self) -> Connection:
        await self.signals.until(lambda: self.is_over)
        return self


def scope_of(method: str, headers: Mapping[str, str], path: str = "/mcp") -> Scope:
    """Return an ASGI scope; `path` may have a query."""
    path, _, query = path.partition("?")
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "client": ("192.0.2.1", 1234),
    }


async def request(
    app: ASGIApp,
    method: str,
    headers: Mapping[str, str],
    body: Json | bytes = b"",
    *,
    path: str = "/mcp",
) -> Connection:
    """Make one request, and return it when it is answered."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = Connection(content)
    with in_time():
        await connection.serve(app, scope_of(method, headers, path))
    return connection
