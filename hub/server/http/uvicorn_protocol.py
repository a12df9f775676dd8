"""uvicorn's HTTP protocol, which answers calls with cached routes without a task.

A call whose head is that of the call before it does not go through the parser either. All other
requests are served by a task, as in uvicorn. So is a request that waited for the answer
to the one before it, that expects `100 Continue`, or after which the connection closes.
"""

from __future__ import annotations

from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from hub.jsonrpc.pipes import LARGE, turn
from hub.server.http.bounds.bodies import BodyLoad, BodyPieces
from hub.server.http.bounds.bounded_protocol import BoundedHttp
from hub.server.http.fast_calls import FastCallAcceptor, PlainCall
from hub.server.http.request_heads import RepeatedHead, RequestHead

_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"


class DirectHttp(BoundedHttp):
    """One HTTP connection, which gives plain calls to `acceptor`."""

    def __init__(self, *args: Any, acceptor: FastCallAcceptor, **options: Any) -> None:
        super().__init__(*args, **options)
        self._acceptor = acceptor
        self._head: RequestHead | None = None
        self._repeated: RepeatedHead | None = None
        self._arrived = b""
        self._pieces = BodyPieces()
        self._load = acceptor.bodies.load()
        self.call: PlainCall | None = None

    def data_received(self, data: bytes) -> None:
        turn.share()
        if self._repeated is not None and self._takes_again(self._repeated, data):
            return
        self._repeated = None  # a repeated head is answered with the scope of the request before it
        self._arrived = b"" if self._in_message or self.has_unparsed else data
        super().data_received(data)
        self._arrived = b""

    def _takes_again(self, repeated: RepeatedHead, data: bytes) -> bool:
        """Take a call whose head need not be parsed; return whether `data` was one.

        The connection must be idle: no part of another request has arrived.
        """
        waiting, before = self._waiting, self.cycle
        if waiting is not self._connections.idle or self.has_unparsed:
            return False
        body = repeated.body_in(data)
        self._load.owner = repeated.head.owner
        if body is None or not self._load.add(len(body)):
            self._load.release()
            return False
        self._unset_keepalive_if_required()
        cycle = self.cycle = self.cycle_of(before.scope, keep_alive=True)
        if self._is_taken(repeated.head, body, cycle):
            return True
        self.cycle = before
        return False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Serve a request by a task, unless its body may show that the request needs none."""
        if self._is_whole(cycle) and not self.is_unread:
            self._head = self._acceptor.head(cast("Scope", cycle.scope))
        if self._head is None:
            self.serve(cycle, app)
            return
        self._load.owner = self._head.owner
        self.prove(self._head.owner)

    def _is_whole(self, cycle: RequestResponseCycle) -> bool:
        """Return whether a request's whole body is still to come, and the connection stays open."""
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
            self._progress += len(body)
            if self._load.add(len(body)):
                self._pieces.add(body)
            else:  # a task refuses the request; the rest of its body is not read
                self._let_go()
                self.serve(self.cycle, self._acceptor.no_room)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        head, self._head = self._head, None
        if head is None:
            return
        body, cycle = self._pieces.taken(), self.cycle
        if self._is_taken(head, body, cycle):
            self._repeated = RepeatedHead.of(head, self._arrived, body)
        else:
            cycle.body += body
            self.serve(cycle, self.app)

    def _is_taken(self, head: RequestHead, body: bytes, cycle: RequestResponseCycle) -> bool:
        """Start a request if it is a plain call; return whether it was, or an error is told."""
        try:
            call = self._acceptor.take(head, body, _Line(self, cycle))
        except Exception as error:  # noqa: BLE001 - the parser would blame the client
            self.serve(cycle, _failing(error))
            return True
        if call is None:
            self._load.release()  # the application counts the body again
            return False
        if not cycle.response_complete:
            self.call = call
        return True

    def _let_go(self) -> None:
        """Forget the part of a body that has arrived."""
        self._load.release()
        self._head, self._pieces = None, BodyPieces()

    def hand_over(self) -> BodyLoad:
        """Return the load that counts the request's body; the caller must release it."""
        load, self._load = self._load, self._acceptor.bodies.load()
        return load

    def write_whole(self, head: bytes, body: bytes) -> None:
        """Write a response in one piece, or in two if copying the body costs more."""
        if len(body) > LARGE:
            self.transport.write(head)
            self.transport.write(body)
        else:
            self.transport.write(head + body)

    def on_response_complete(self) -> None:
        if self._load.size:
            self._load.release()
        super().on_response_complete()

    def evict(self) -> None:
        super().evict()
        self._let_go()

    def eof_received(self) -> bool:
        is_kept = super().eof_received()
        if is_kept and self.call is not None:
            self.call.watch()
        return is_kept

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._let_go()
        call, self.call = self.call, None
        if call is not None:
            call.lost()


def _failing(error: Exception) -> ASGIApp:
    """Return an application that raises `error`, so that uvicorn reports our bug as usual."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    return app


class _Line:
    """The response to one request on a connection; implements `Line`."""

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
        connection = self._connection
        connection.call = None
        connection.serve(self._cycle, _counted(app, connection.hand_over()))


def _counted(app: ASGIApp, load: BodyLoad) -> ASGIApp:
    """Return an application that releases `load` when it is done. A call may outlive its client."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            load.release()

    return counted
