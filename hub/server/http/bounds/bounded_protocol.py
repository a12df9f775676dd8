"""uvicorn's httptools protocol with limits of size and time for each connection.

Each part of a request must arrive in time, and each response must be read in time. No timer runs
for a request that arrives at once and whose response is taken at once.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.lines import end_of_lines
from hub.jsonrpc.peer_conduct import BURST_OF_ALL, SHARE_OF_ALL, LoopShare, TimeBudget
from hub.server.http.bounds.connections import CONNECTION, Connections, UnreadResponse
from hub.server.http.bounds.forwarded import UNKNOWN, network_of
from hub.server.http.bounds.plain_http import HttpFlow, PlainHttp, RefusedHeadError, refusing
from hub.system.this_process import unsent
from hub.usage.fair_parts import Owner

MAX_HEAD: Final = 64 * 1024
"""Bytes that may arrive that belong to no body: the head of a request, its trailers."""
MAX_FIELDS: Final = 1000
"""Fields that a head may have: each takes some hundred bytes of memory, however short it is."""
USUAL_LINES, LINES_AT_ONCE = 256, 64
"""Lines that may arrive at once before they are parsed in portions, and the lines of a portion."""
_of_all_clients = TimeBudget(BURST_OF_ALL, SHARE_OF_ALL, time.perf_counter)
"""The common budget of loop time for portions, of all connections of this process."""
QUIET: Final = logging.getLogger("uvicorn.error.connection")
"""Logs what went wrong in this process, and not what each client did."""
QUIET.setLevel(logging.ERROR)
_BETWEEN: Final = len(": \r\n")
_LATE: Final = "The request took too long."
_CODING: Final = "The hub reads no Transfer-Encoding but chunked."
_NO_ROOM: Final = "Too many requests are in progress; try again."


class BoundedHttp(PlainHttp):
    """One HTTP connection. A client that sends an endless head gets an error, and is disconnected.

    Data of very many lines (chunks of a few bytes, many requests at once) is parsed in portions,
    between the turns of others and for a limited share of the loop's time.

    When the connection is lost, the request that is being served ends too, even if others came
    after it on the connection.
    """

    app: Any
    cycle: Any
    app_state: dict[str, Any]
    _collected = 0
    _served: RequestResponseCycle | None = None
    is_refused = False
    """Whether something came that is no request: nothing behind it is read."""

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = QUIET
        self._connections = connections
        self._waiting: Deadlines | None = None
        self._in_message = False
        self._is_proven = False
        self._progress = 0
        self._since = 0.0
        self._unread = UnreadResponse(self)
        self._unparsed, self._parsed = b"", 0
        self._is_due = False
        self._pace: LoopShare | None = None
        self.address = UNKNOWN
        self.owner: Owner = UNKNOWN

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = HttpFlow(transport, self)
        # The application calls `prove` on the connection when it lets the client in.
        self.app_state = dict[str, Any]({CONNECTION: self})
        self.owner = self.address = network_of(self.client[0] if self.client is not None else "")
        if self._connections.add(self):
            self._wait(self._connections.line)
        else:
            self._refuse(503, _NO_ROOM)

    def prove(self, owner: Owner) -> None:
        """Mark the client as one that may use the hub; `owner` sends the request on it now."""
        self.owner = owner
        if not self._is_proven:
            self._is_proven = True
            self._connections.prove(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self.is_unread:
            self.pipeline.appendleft((cycle, app))
        else:
            self._served = cycle
            super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._wait(None)
        self._has_read()
        self._connections.remove(self)
        self._unparsed, self._parsed = b"", 0
        self.app_state = {}
        served = self._served
        if served is not None and not served.response_complete:
            served.disconnected = True
            served.message_event.set()

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        is_waiting = self._unparsed or self.pipeline
        if is_waiting or (len(data) > USUAL_LINES and data.count(b"\n") > USUAL_LINES):
            self._unparsed, self._parsed = self._unparsed[self._parsed :] + data, 0
            self.flow.pause_reading()
            self._parse_soon()
        else:
            self._parse(data)

    @property
    def has_unparsed(self) -> bool:
        """Whether data waits, so that no more should be read.

        While only parsed requests wait, the hub reads on: else it would not notice that the client
        leaves.
        """
        return bool(self._unparsed)

    def _parse_soon(self, rest: float = 0.0) -> None:
        if not self._is_due:
            self._is_due = True
            self.loop.call_later(rest, self._parse_portions)

    def _parse_portions(self) -> None:
        """Parse what has arrived until others should have a turn, or requests wait for answers."""
        self._is_due = False
        pace = self._pace = self._pace or LoopShare(together=_of_all_clients)
        while self._unparsed and not self.pipeline and not self.transport.is_closing():
            began, start = pace.clock(), self._parsed
            self._parsed = end_of_lines(self._unparsed, start, LINES_AT_ONCE)
            portion = self._unparsed[start : self._parsed]
            if self._parsed == len(self._unparsed):
                self._unparsed, self._parsed = b"", 0
            self._parse(portion)
            pace.spend(pace.clock() - began)
            rest = pace.rest()
            if rest is not None:
                self._parse_soon(rest)
                return
        self.flow.resume_reading()

    def _parse(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._collected += len(data)
        super().data_received(data)
        if self._collected or self._in_message:
            self._received_in_part()

    def _received_in_part(self) -> None:
        if self.transport.is_closing():
            return
        if self._in_message and not self._in_body and len(self.headers) > MAX_FIELDS:
            self._refuse_head(f"{MAX_FIELDS} fields")
        elif self._collected > MAX_HEAD:
            self._refuse_head(f"{MAX_HEAD} bytes")
        else:
            self._wait(self._part())

    def _refuse_head(self, most: str) -> None:
        self.send_400_response(f"The head of a request may have {most} at most.", 431)

    def _part(self) -> Deadlines | None:
        """Return the deadlines for the rest of a request; None while another one is answered."""
        cycle = self.cycle
        if self._in_body and cycle is not None:
            if cycle.response_complete:
                return self._connections.linger
            return None if self.pipeline else self._connections.body
        if cycle is not None and not cycle.response_complete:
            return None
        return (
            self._connections.headers
            if self._in_message and self.headers
            else self._connections.line
        )

    def _wait(self, kind: Deadlines | None) -> None:
        """Start the deadline `kind` for what the client does next; None: wait for nothing."""
        if self._waiting is not kind:
            if self._waiting is not None:
                self._waiting.end(self)
            self._waiting = kind
            if kind is not None:
                kind.begin(self)
                self._since = self.loop.time()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_message = True

    def on_headers_complete(self) -> None:
        if self._collected > MAX_HEAD:  # what was read at once may also be much of a body
            size = sum(len(name) + len(value) + _BETWEEN for name, value in self.headers)
            if len(self.url) + size > MAX_HEAD:
                self._refuse_head(f"{MAX_HEAD} bytes")
                raise RefusedHeadError
        if self.is_coded():
            self.send_400_response(_CODING, 501)
            raise RefusedHeadError
        self._collected = self._progress = 0
        super().on_headers_complete()
        if self.pipeline:
            self.flow.resume_reading()  # uvicorn has paused; see `has_unparsed`

    def on_body(self, body: bytes) -> None:
        self._collected = 0
        self._progress += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_body:
            return  # the request is read again, without the upgrade that it offers
        self._collected = 0
        self._in_message = False
        if self._waiting is not None:
            self._wait(None)
            if self.cycle.response_complete:
                self._wait(self._connections.idle)
        super().on_message_complete()

    # Sending

    def on_response_complete(self) -> None:
        self.is_unread = self.flow.write_paused and not self.transport.is_closing()
        if self.is_unread:
            self.flow.pause_reading()
            return
        if self.sends_no_more and not (self.pipeline or self._unparsed):
            self.transport.close()
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            if self.transport.is_closing():
                self._has_to_read()
        else:
            # As uvicorn does it, but without a keep-alive timer for each connection.
            self.server_state.total_requests += 1
        if self._unparsed:
            self._parse_soon()
        self.flow.resume_reading()
        if self._in_message or not self.cycle.response_complete:
            self._wait(self._part())
        elif self._waiting is None:
            self._waiting = idle = self._connections.idle
            idle.begin(self)
        else:
            self._wait(self._connections.idle)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._has_to_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._has_read()
            if self.is_unread:
                self.on_response_complete()

    def eof_received(self) -> bool:
        if not super().eof_received():
            self._has_to_read()
        elif self._served is not None:
            self._served.message_event.set()
        return self.sends_no_more

    def _has_to_read(self) -> None:
        """Start the deadline for the client to read what was written so far."""
        self._has_read()
        size = self.transport.get_write_buffer_size()
        if size:
            self._unread.size, self._unread.since = size, self.loop.time()
            self._connections.unread.begin(self._unread)
            self._connections.unread_by(size, self._unread.since)

    def _has_read(self) -> None:
        """End that deadline: the client has read enough."""
        unread = self._unread
        if unread.size:
            self._connections.unread.end(unread)
            self._connections.unread_bytes -= unread.size
            unread.size = 0

    def send_400_response(self, msg: str, status: int = 400) -> None:
        """Refuse what cannot be read as a request, once those before it are answered."""
        if self.is_refused or self.transport.is_closing():
            return
        self.is_refused = True
        self._unparsed, self._parsed = b"", 0
        self._connections.log.note("connection closed: no HTTP", self.address, msg)
        if self._in_body and self.pipeline:
            self.pipeline.popleft()  # the request itself
        elif self._in_body or self.cycle is None or self.cycle.response_complete:
            self._refuse(status, msg)
            return
        self._in_message = self._in_body = False
        scope = {**self.cycle.scope, "method": "GET", "http_version": "1.1"}
        self.cycle = self.cycle_of(scope, keep_alive=False)
        self.pipeline.appendleft((self.cycle, refusing(status, msg)))

    def _refuse(self, status: int, text: str) -> None:
        """Answer with an error, unless the request has an answer already; close the connection."""
        body = text.encode()
        again = b"retry-after: 1\r\n" if status in {408, 503} else b""
        cycle = self.cycle
        is_next = cycle is None or (cycle.response_complete and not self._in_body)
        if is_next or (cycle is not None and not cycle.response_started):
            self.transport.write(
                STATUS_LINE[status]
                + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                + again
                + b"content-length: %d\r\n\r\n" % len(body)
                + body
            )
        self._close()

    def _close(self) -> None:
        self._wait(None)
        self.transport.close()
        self._has_to_read()

    # Timeouts

    def _unset_keepalive_if_required(self) -> None:
        waiting = self._waiting
        if waiting is not None and waiting is self._connections.idle:
            self._waiting = None
            waiting.end(self)

    def expire(self) -> None:
        late, self._waiting = self._waiting, None
        if self.transport.is_closing() or late is None:
            return
        if late is self._connections.body and self._progress >= self._connections.limits.progress:
            self._progress = 0
            self._wait(late)
        elif late is self._connections.idle:
            self._close()
        elif late is self._connections.linger:
            self.transport.abort()
        else:
            self._is_late(late)

    def _is_late(self, late: Deadlines) -> None:
        among = self._connections
        part = {among.line: "line", among.headers: "headers"}.get(late, "body")
        among.log.note(f"connection closed: the request's {part} took too long", self.address)
        if self._in_message:
            self._refuse(408, _LATE)
        else:
            self._close()

    def unread_for_too_long(self) -> None:
        """Abort the connection, unless its client has read at least `progress` bytes."""
        left = self.transport.get_write_buffer_size()
        if self._unread.size - left >= self._connections.limits.progress:
            self._has_to_read()
            return
        self._connections.log.note("connection closed: its client does not read", self.address)
        self.transport.abort()

    def is_slow(self, patience: float, rate: float) -> bool:
        """Return whether, after `patience` seconds, a body comes below `rate` bytes a second."""
        took = self.loop.time() - self._since
        return took > patience and self._progress < took * rate

    def has_unread(self) -> bool:
        """Return whether a part of what was written has not reached the client."""
        return bool(self.transport.get_write_buffer_size()) or unsent(self.transport) > 0

    def evict(self) -> None:
        """Close the connection at once: another one needs its place."""
        self._wait(None)
        self._has_read()
        self.transport.abort()
