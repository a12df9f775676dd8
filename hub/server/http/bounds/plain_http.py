"""uvicorn's httptools protocol, reading and answering requests as HTTP/1.1 and 1.0 say.

httptools leaves to its user what is not plain: it takes all that follows a request with an
`Upgrade` header for another protocol, the request's own body too, and hands on the fields behind a
chunked body as if they were headers.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - uvicorn's requests have an event of asyncio's
from typing import Any, Final
from urllib.parse import urlsplit

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hub.server.http.bounds.connections import SENDS_NO_MORE

_TLS: Final = b"\x16\x03"
"""How a TLS connection begins."""
_LONGEST: Final = 200
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


class RefusedHeadError(Exception):
    """The head of a request was refused; raising this ends the parser's work."""


def _unchunked(cycle: RequestResponseCycle, send: Any) -> Any:
    """Return a `send` for HTTP/1.0, which has no chunks: the connection's end is the body's."""

    async def sent(message: Any) -> None:
        cycle.chunked_encoding = False
        cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    return sent


class HttpFlow(FlowControl):
    """Flow control of a connection that is not read while data of it waits, or a whole response."""

    def __init__(self, transport: Any, connection: PlainHttp) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        if not (self._connection.has_unparsed or self._connection.is_unread):
            super().resume_reading()


class PlainHttp(HttpToolsProtocol):
    """One HTTP connection. Upgrades are declined: such a request is served as any other.

    Fields behind a body (trailers) are dropped, as no check has seen them (RFC 9110, 6.5.1).
    CONNECT is refused. `_in_body`: the head of a request was read, and its end was not.
    `sends_no_more`: the client has shut down its side of the connection (RFC 9112, 9.6). It may
    wait for answers, or have gone: that shows only once something is sent to it.
    """

    parser: Any
    headers: Any
    cycle: Any
    _in_body = False
    sends_no_more = False
    has_unparsed: Any = False
    is_unread = False
    """Whether a whole response waits for the client: its next request is not begun until then."""

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as paused:
            self._decline_upgrade(data[paused.args[0] :])
        except httptools.HttpParserError as error:
            self.send_400_response(f"This is no valid HTTP request: {_reason(error, data)}.")

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read a request again as one that offers no other protocol, and go on with `rest`."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("The hub does not connect to others: CONNECT is refused.")
            return
        version = self.parser.get_http_version().encode()
        fields = [field for field in self.headers if field[0] != b"upgrade"]
        head = [b"%b %b HTTP/%b\r\n" % (method, self.url, version)]
        head += [b"%b: %b\r\n" % field for field in fields]
        PlainHttp.data_received(self, b"".join(head) + b"\r\n" + rest)

    def cycle_of(self, scope: Any, *, keep_alive: bool) -> RequestResponseCycle:
        """Return a request with this head that has arrived as a whole."""
        cycle = RequestResponseCycle(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        cycle.message_event.set()
        return cycle

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - asyncio asks for it
        """Keep the connection if a whole request has no answer yet; return whether it is kept."""
        cycle = self.cycle
        is_answering = cycle is not None and not (cycle.response_complete or self._in_body)
        self.sends_no_more = bool(is_answering or self.pipeline or self.has_unparsed)
        return self.sends_no_more

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        async def served(scope: Any, receive: Any, send: Any) -> None:
            """Serve a request; complete a stream whose client reads too slowly to be waited for."""
            is_old = scope["http_version"] == "1.0"
            cycle.waiting_for_100_continue &= not is_old
            received = self._telling(cycle, receive)
            await app(scope, received, _unchunked(cycle, send) if is_old else send)
            if (
                (cycle.chunked_encoding or is_old)
                and cycle.response_started
                and not cycle.response_complete
            ):
                cycle.keep_alive = False
                cycle.flow.resume_writing()  # for the few bytes that say that this is all
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        super()._start_asgi_task(cycle, served)

    def _telling(self, cycle: RequestResponseCycle, receive: Any) -> Any:
        """Return a `receive` that tells once, behind the body, that the client sends no more."""
        is_read = is_told = False

        async def received() -> Any:
            nonlocal is_read, is_told
            if is_read and self.sends_no_more and not (is_told or cycle.disconnected):
                is_told = True
                return {"type": SENDS_NO_MORE}
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        return received

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # the parser stops after this, and the request is read again
        self._in_body = True
        if self.url[:1] not in {b"/", b"*"}:
            self._take_target()
        super().on_headers_complete()
        self.headers = []  # for the fields behind the body: the request has a list of its own

    def is_coded(self) -> bool:
        """Return whether a body is in a coding that nothing here reads (RFC 9112, 6.1)."""
        return any(
            name == b"transfer-encoding" and value.strip().lower() != b"chunked"
            for name, value in self.headers
        )

    def _take_target(self) -> None:
        """Replace the Host header by the host of an absolute target (RFC 9112, 3.2.2)."""
        host = urlsplit(self.url).netloc
        self.headers[:] = [field for field in self.headers if field[0] != b"host"]
        self.headers.append((b"host", host))

    def on_message_complete(self) -> None:
        if self._in_body:
            self._in_body = False
            super().on_message_complete()


def _reason(error: httptools.HttpParserError, data: bytes) -> str:
    """Return what is wrong with a request, for whoever wrote it."""
    if data.startswith(_TLS):
        return "it begins as TLS does, and the hub speaks plain HTTP (http://)"
    if isinstance(error, httptools.HttpParserCallbackError):
        return "its target is not valid"
    return str(error)[:_LONGEST]


def refusing(status: int, text: str) -> Any:
    """Return an application that answers with an error."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        body = text.encode()
        headers = [_TEXT, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app
