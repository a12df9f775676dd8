"""Clients' HTTP as httptools reads it, with a bound on what it collects."""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD: Final = 64 * 1024
"""How many bytes may come that are no part of a body: the head of a request, its trailers."""


class BoundedHttp(HttpToolsProtocol):
    """One connection. Who sends a head without an end is told so, and loses it."""

    _collected = 0

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
