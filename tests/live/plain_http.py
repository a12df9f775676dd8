"""A client that speaks plain streamable HTTP: it chooses its own ids, and answers `roots/list`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

ACCEPT = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class PlainClient:
    """One session of a hub; `headers` name it."""

    def __init__(self, http: httpx2.AsyncClient, url: str, roots: Sequence[Path]) -> None:
        self.roots = roots
        self.headers = dict(ACCEPT)
        self._http = http
        self._url = url

    async def begin(self) -> None:
        """Do the handshake."""
        body = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {"listChanged": True}},
            "clientInfo": {"name": "plain", "version": "1"},
        }
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": body}
        got = await self._http.post(self._url, headers=self.headers, content=json.dumps(request))
        got.raise_for_status()
        self.headers["mcp-session-id"] = got.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = "2025-11-25"
        await self.tell({"method": "notifications/initialized"})

    async def tell(self, message: dict[str, Any]) -> None:
        """Send a message that gets no answer."""
        content = json.dumps({"jsonrpc": "2.0", **message})
        got = await self._http.post(self._url, headers=self.headers, content=content)
        got.raise_for_status()

    async def end(self) -> None:
        """End the session, as a client does that leaves."""
        (await self._http.delete(self._url, headers=self.headers)).raise_for_status()

    async def request(self, id_: int | str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request under this id, and return its whole answer."""
        request = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        content = json.dumps(request)
        async with self._http.stream(
            "POST", self._url, headers=self.headers, content=content
        ) as got:
            if "event-stream" not in got.headers.get("content-type", ""):
                return json.loads(await got.aread())
            async for line in got.aiter_lines():
                if line.startswith("data: {"):  # not what an event stream begins with
                    message = json.loads(line.removeprefix("data: "))
                    if message.get("method") == "roots/list":
                        await self._share(message["id"])
                    elif "method" not in message:
                        return message
        raise AssertionError("the stream ended without an answer")

    async def _share(self, id_: int) -> None:
        shared = [{"uri": root.as_uri()} for root in self.roots]
        await self.tell({"id": id_, "result": {"roots": shared}})

    async def call(self, id_: int | str, name: str, **arguments: Any) -> str:
        """Call a tool, and return its text.

        Raises: AssertionError if it failed.
        """
        answer = await self.request(id_, "tools/call", {"name": name, "arguments": arguments})
        assert answer["id"] == id_, answer
        assert "isError" not in answer.get("result", {"isError": 1}), answer
        return answer["result"]["content"][0]["text"]


@asynccontextmanager
async def plain_client(url: str, *roots: Path) -> AsyncGenerator[PlainClient]:
    """Open a session, and end it."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(timeout=60.0, limits=limits) as http:
        client = PlainClient(http, url, roots)
        await client.begin()
        yield client
        await client.end()
