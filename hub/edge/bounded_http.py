"""Clients' HTTP as httptools reads it: it collects no more than a bound, and ends with them."""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEAD: Final = 64 * 1024
"""How many bytes may come that are no part of a body: the head of a request, its trailers."""


class BoundedHttp(HttpToolsProtocol):
    """One connection. Who sends a head without an end is told so, and loses it.

    With the connection the request ends that is being served, also where others came after it.
    """

    _collected = 0
    _served: RequestResponseCycle | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        served = self._served
        if served is not None and not served.response_complete:
            served.disconnected = True
            served.message_event.set()

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
