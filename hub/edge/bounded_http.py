"""Clients' HTTP as httptools reads it, with a bound on what it collects, and gathered writes."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a protocol's transport
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hub.runtime.gathering import LARGE, Gathering

MAX_HEAD: Final = 64 * 1024
"""How many bytes may come that are no part of a body: the head of a request, its trailers."""


class _Gathered:
    """A connection's transport that writes the head and the body of a response as one."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._gathering = Gathering(transport)
        self.write = self._gathering.write

    def write_whole(self, head: bytes, body: bytes) -> None:
        self._gathering.flush()
        if len(body) > LARGE:
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)

    def close(self) -> None:
        self._gathering.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedHttp(HttpToolsProtocol):
    """One connection. Who sends a head without an end is told so, and loses it."""

    _collected = 0
    _gathered: _Gathered

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as its base has it
        self._gathered = _Gathered(transport)
        super().connection_made(cast("asyncio.Transport", self._gathered))

    def write_whole(self, head: bytes, body: bytes) -> None:
        """Write a response that no piece follows which would be worth waiting for."""
        self._gathered.write_whole(head, body)

    def data_received(self, data: bytes) -> None:
        self._collected += len(data)
        super().data_received(data)
        if self._collected > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have {MAX_HEAD} bytes at most.")

    def on_headers_complete(self) -> None:
        self._collected = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._collected = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._collected = 0
        super().on_message_complete()
