"""Answers a call in the function that reads its POST, without a task, if its route is cached.

A `CallDispatcher` takes the call, and its answer is written to the connection at once. A task takes
over if the call takes long, if a message comes before its answer, or if the client does not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from hub.calls.in_flight import ReplySink
from hub.jsonrpc import parsing
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Failure, Message, Request, Response, to_bytes
from hub.jsonrpc.requests import Answer, Cancellable
from hub.protocol.constants import CALLS
from hub.server.http.bounds.bodies import LARGE_MESSAGE, BodyLimit
from hub.server.http.request_heads import HeaderChecks, RequestHead
from hub.server.http.responses import PostResponse, counted, until_disconnected
from hub.usage.principals import ClientUsage, UsageByPrincipal

PATIENCE: Final = 0.05
"""Seconds after which a task waits for a call's answer, and keeps its client's connection alive."""


class PostedRequest(Protocol):
    """A request that came in a POST; the response to the POST is its answer."""

    def begin(self) -> None:
        """Count the request as in flight; `end` must follow."""

    def end(self) -> None:
        """Forget a request that was answered or abandoned."""

    def pass_on(self, reply: ReplySink) -> Cancellable | None:
        """Start the request if its route is cached; return None if it has to be resolved."""
        ...

    def response(self, send: Send) -> PostResponse:
        """Return the response to the request, written through `send`."""
        ...

    async def converse(self, receive: Receive, response: PostResponse) -> None:
        """Answer the request in the task that calls this."""

    def last_word(self) -> Failure | None:
        """Return the error for a client that still waits for a request given up; else None."""
        ...

    def status_of(self, failure: Failure) -> int:
        """Return the HTTP status that an error is sent with."""
        ...


class Line(Protocol):
    """The connection that a POST came on, as far as its response needs it."""

    def answer(self, status: int, body: bytes) -> bool:
        """Write the whole response if that is possible at once; return whether it was."""
        ...

    @property
    def send(self) -> Send:
        """The ASGI `send` for the response, once a task serves the request."""
        ...

    def serve(self, app: ASGIApp) -> None:
        """Let a task serve the request after all."""


class PlainCall:
    """A plain call from its POST to the response; also the outlet for messages before its answer.

    The response is written to `line`, or is `response` if a task serves the request already.
    `patience` says when a task must wait for the call. What is written counts for `usage`.
    """

    def __init__(
        self,
        post: PostedRequest,
        patience: Deadlines,
        line: Line | None = None,
        response: PostResponse | None = None,
        usage: ClientUsage | None = None,
    ) -> None:
        self._post = post
        self._patience = patience
        self._line = line
        self._usage = usage
        self._response = response
        self._in_flight: Cancellable | None = None
        self._outcome: Answer = None
        self._is_there = False
        self._is_unresolved = False  # there without an answer: a task has to resolve the route
        self._is_late = False
        self._stirred: anyio.Event | None = None

    @property
    def outlet(self) -> PlainCall:
        """The outlet for messages that belong to the call: its response."""
        return self

    def begin(self) -> bool:
        """Start the call if its route is cached; return whether it was."""
        self._post.begin()
        try:
            self._in_flight = self._post.pass_on(self)
        finally:
            if self._in_flight is None:
                self._post.end()
        if self._in_flight is None:
            return False
        if self._in_flight.can_be_cancelled:
            self._patience.begin(self)  # a call that cannot be cancelled is answered already
        return True

    # Answer

    def give(self, answer: Answer) -> bool:
        if answer is None or self._response is not None or not self._is_written(answer):
            self._settle(answer)
        return True

    def _is_written(self, answer: Response | Failure) -> bool:
        line = self._line
        if line is None:
            return False
        body = to_bytes(answer)
        if not line.answer(self._status(answer), body):
            return False
        if self._usage is not None:
            self._usage.carried(len(body))
        self._over()
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self.give(answer)

    def resolve_again(self, request: Request) -> None:
        if not self._is_there:
            self._is_unresolved = True
            self._settle(None)

    def _settle(self, outcome: Answer) -> None:
        if not self._is_there:
            self._outcome, self._is_there = outcome, True
            self._stir()

    def _status(self, answer: Answer) -> int:
        return self._post.status_of(answer) if isinstance(answer, Failure) else 200

    def _over(self) -> None:
        # A task that was cancelled holds the call until the garbage is collected: the result not.
        self._line = self._in_flight = self._outcome = None
        self._patience.end(self)
        self._post.end()

    # Client

    def lost(self) -> None:
        """Cancel the call because its connection is closed, unless a task serves it."""
        if self._line is not None and self._response is None:
            self._line = None
            self._give_up()
            self._over()

    def _give_up(self) -> None:
        if self._in_flight is not None:
            self._in_flight.cancel()

    async def send(self, message: Message) -> None:
        """Send a message that comes before the answer; a task takes over the response.

        Raises: GoneError when the response is over, or the client has gone.
        """
        response = self._go_on()
        if response is None:
            raise GoneError("the response is over")
        await response.send(message)

    # Calls that take long

    def expire(self) -> None:
        self._is_late = True
        self._stir()

    def watch(self) -> None:
        """Let a task wait for the answer now: its client may have gone."""
        self._patience.end(self)
        self.expire()

    def _stir(self) -> None:
        self._go_on()
        if self._stirred is not None:
            self._stirred.set()

    async def _is_stirred(self) -> None:
        self._stirred = anyio.Event()
        await self._stirred.wait()

    def _go_on(self) -> PostResponse | None:
        """Return the response, after starting a task for it; None if there is none any more."""
        if self._response is None and self._line is not None:
            send, usage = self._line.send, self._usage
            self._response = self._post.response(send if usage is None else counted(send, usage))
            self._line.serve(self._served)
        return self._response

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.served(receive)

    async def served(self, receive: Receive) -> None:
        """Answer the call through its response, in the task that serves its request."""
        response = self._go_on()
        try:
            if response is not None:
                await self._answer_in(response, receive)
        finally:
            self._give_up()
            self._over()

    async def _answer_in(self, response: PostResponse, receive: Receive) -> None:
        if not self._is_there and not self._is_late:
            await self._is_stirred()
        if not self._is_there:
            await self._until_answered(response, receive)
        if self._is_unresolved:
            await self._post.converse(receive, response)
        else:
            last = self._outcome or self._post.last_word()
            await response.finish(last, status=self._status(last))
            self._in_flight = None  # a call that asks its client goes on without this request

    async def _until_answered(self, response: PostResponse, receive: Receive) -> None:
        """Wait for the outcome; the call is cancelled when its client is lost."""

        async def watch() -> None:
            await until_disconnected(receive, tasks, response.probe)
            await response.lost()
            self._give_up()
            self._outcome = None
            self._is_unresolved = False  # a cancelled call must not be resolved either

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            tasks.start_soon(response.tend)
            await self._is_stirred()
            tasks.cancel_scope.cancel()


async def answer_post(
    post: PostedRequest, receive: Receive, response: PostResponse, patience: Deadlines
) -> None:
    """Answer a POST's request in `response`; if its route is cached, without a connection."""
    call = PlainCall(post, patience, response=response)
    if call.begin():
        await call.served(receive)
    else:
        await post.converse(receive, response)


FindPost: TypeAlias = Callable[[Request, RequestHead], PostedRequest | None]
"""Returns how a request is answered; None if a task must answer with an error."""


class FastCallAcceptor:
    """Tells HTTP connections which requests need no task.

    `bodies` counts the bytes collected for that; the application `no_room` refuses a body without
    room. `usage` has the limits of principals.
    """

    def __init__(  # noqa: PLR0913 - each is one thing it cannot do without
        self,
        header_checks: HeaderChecks,
        find: FindPost,
        patience: Deadlines,
        *,
        bodies: BodyLimit,
        no_room: ASGIApp,
        usage: UsageByPrincipal,
    ) -> None:
        self._header_checks = header_checks
        self._find = find
        self._patience = patience
        self.bodies = bodies
        self.no_room = no_room
        self._usage = usage

    def head(self, scope: Scope) -> RequestHead | None:
        """Return the head of a request whose body should be collected; None for any other."""
        head = self._header_checks.of(scope)
        return None if head is None or head.checked.prefers_stream else head

    def take(self, head: RequestHead, body: bytes, line: Line) -> PlainCall | None:
        """Start a request if it is a plain call, and return the call; its answer goes to `line`.

        A large message is none: it has to wait for its turn to be read.
        """
        if len(body) > LARGE_MESSAGE or not self._header_checks.still_counts(head):
            return None
        try:
            request = parsing.parse_client(body)
        except WireError:
            return None
        if not isinstance(request, Request) or request.method not in CALLS:
            return None
        post = self._find(request, head)
        if post is None:
            return None
        if self._usage.is_limited:
            admission = head.checked.admission
            usage = self._usage.of(admission.principal, admission.profile)
            if usage is not None:
                return self._within(usage, post, len(body), line)
        call = PlainCall(post, self._patience, line)
        return call if call.begin() else None

    def _within(
        self, usage: ClientUsage, post: PostedRequest, size: int, line: Line
    ) -> PlainCall | None:
        """Start a call if it is within the limits of its principal: else a task refuses it."""
        if usage.objection(is_call=True) is not None:
            return None
        call = PlainCall(post, self._patience, line, usage=usage)
        if not call.begin():
            return None
        usage.called()
        usage.carried(size)
        return call
