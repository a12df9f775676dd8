"""Connections that let plain calls be answered where they arrive, without a task for each.

Any other request is served by a task, as uvicorn does it. So is one that waited for the answer to
the one before it, that wants to be told to go on, or whose connection ends with it.
"""

from __future__ import annotations

from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from hub.edge.bounded_http import BoundedHttp
from hub.edge.desk import Desk
from hub.edge.heads import Head
from hub.edge.plain_calls import PlainCall
from hub.runtime.deadlines import Deadlines
from hub.runtime.gathering import LARGE

_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"


class DirectHttp(BoundedHttp):
    """One connection, whose plain calls are given to a `desk`.

    `idle` ends connections, of all that share it, that have no request for too long.
    """

    app: Any

    def __init__(self, *args: Any, desk: Desk, idle: Deadlines, **options: Any) -> None:
        super().__init__(*args, **options)
        self._desk = desk
        self._idle = idle
        self._head: Head | None = None
        self._pieces: list[bytes] = []
        self.call: PlainCall | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Serve a request by a task, unless it may turn out that it needs none."""
        if self._is_whole(cycle):
            self._head = self._desk.head(cast("Scope", cycle.scope))
        if self._head is None:
            self.serve(cycle, app)

    def _is_whole(self, cycle: RequestResponseCycle) -> bool:
        """Return whether all of a request's body is still to come, and more requests after it."""
        comes = cycle is self.cycle and cycle.more_body and not cycle.body
        return comes and cycle.keep_alive and not cycle.waiting_for_100_continue

    def serve(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Serve a request by a task."""
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        if self._head is None:
            super().on_body(body)
        else:
            self._collected = 0
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        head, self._head = self._head, None
        if head is None:
            return
        body, cycle = self._body(), self.cycle
        try:
            call = self._desk.take(head, body, _Line(self, cycle))
        except Exception as error:  # noqa: BLE001 - the parser would take it for the client's
            self.serve(cycle, _failing(error))
            return
        if call is None:
            cycle.body += body
            self.serve(cycle, self.app)
        elif not cycle.response_complete:
            self.call = call

    def _body(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write_whole(self, head: bytes, body: bytes) -> None:
        """Write a response, as one piece unless copying it would cost more."""
        if len(body) > LARGE:
            self.transport.write(head)
            self.transport.write(body)
        else:
            self.transport.write(head + body)

    # Between requests: without a timer for each

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle.end(self)  # this request came with the one before it
        self._idle.begin(self)

    def _unset_keepalive_if_required(self) -> None:
        self._idle.end(self)

    def expire(self) -> None:
        if self.cycle.response_complete:  # a request may have come with the one before it
            self.timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.end(self)
        self._head, self._pieces = None, []
        call, self.call = self.call, None
        if call is not None:
            call.lost()


def _failing(error: Exception) -> ASGIApp:
    """Return what tells a mistake of our own as any application's is told."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    return app


class _Line:
    """The response to one request on a connection."""

    def __init__(self, connection: DirectHttp, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle

    def answer(self, status: int, body: bytes) -> bool:
        connection, cycle = self._connection, self._cycle
        if not cycle.keep_alive or connection.flow.write_paused or cycle.disconnected:
            return False
        head = [STATUS_LINE[status]]
        for name, value in cycle.default_headers:
            head += name, b": ", value, b"\r\n"
        head.append(_JSON % len(body))
        connection.call = None
        connection.write_whole(b"".join(head), body)
        cycle.response_started = cycle.response_complete = True
        connection.on_response_complete()
        return True

    @property
    def send(self) -> Send:
        return cast("Send", self._cycle.send)

    def serve(self, app: ASGIApp) -> None:
        self._connection.call = None
        self._connection.serve(self._cycle, app)
