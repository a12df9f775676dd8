"""A call in flight: from the guard's verdict, through the child, to the client's reply sink.

Whoever starts it, `CallDispatcher` or `Relay`, from there on all calls go one way.
"""

from __future__ import annotations

from typing import Protocol

import anyio
import structlog
from msgspec.structs import replace

from hub.calls.audit_trail import CallAudit
from hub.calls.caller import ClientCaller, send_to_urls
from hub.calls.results import for_legacy, too_large
from hub.calls.routes import CallRoute
from hub.children.child_call import CallResult, ChildCall
from hub.children.clients import InputNeededError, StaleError
from hub.children.failures import failed
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError, InternalError, RpcError
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Payload, Request, Response, size_of_answer
from hub.jsonrpc.peer import Asked, Outlet
from hub.jsonrpc.requests import UNSAID, Answer, Cancellable
from hub.protocol.constants import INTERNAL_ERROR
from hub.protocol.input_requests import CallState
from hub.roots.roots import Root
from hub.sessions.services import ResultLimit
from hub.usage.principals import ClientUsage
from hub.values import Call

log = structlog.stdlib.get_logger(__name__)


class ReplySink(Protocol):
    """Takes the answer of one request, and sends it to the client."""

    @property
    def outlet(self) -> Outlet:
        """Where notifications and requests within this request go, before its answer."""
        ...

    def give(self, answer: Answer) -> bool:
        """Hand the answer over if it can be taken now, and return whether it was.

        None means that no answer will come, because the client cancelled the request.
        """
        ...

    async def deliver(self, answer: Response | Failure) -> None:
        """Hand the answer over; wait until it is taken."""
        ...

    def resolve_again(self, request: Request) -> None:
        """Have the request's route resolved anew, and the call judged again."""
        ...


class InFlightRegistry(Protocol):
    """Registers one client's requests in flight, as `InboundRequests` does."""

    @property
    def has_room(self) -> bool:
        """Whether few enough answers wait for the client to read them."""
        ...

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Register a request, so that it is counted and can be cancelled; `leave` must follow."""
        ...

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Forget a request that was answered or abandoned."""
        ...


class InFlightCall(ClientCaller, eq=False, kw_only=True):
    """One call from its verdict to its answer, without a task.

    To the client it is a cancellable request; to the child, it is the `Caller`, which the child's
    requests and notifications meanwhile go to. `usage` counts it for the limits of its principal.
    `granted` are the places that the user has agreed to in this call. `unanswered`: why the child
    gave no answer, if that is so.
    """

    route: CallRoute
    call: Call
    request: Request
    reply: ReplySink
    register: InFlightRegistry
    audit: CallAudit
    usage: ClientUsage | None = None
    granted: tuple[Root, ...] = ()
    unanswered: ChildError | None = None
    can_be_cancelled: bool = True
    _at_child: ChildCall | None = None
    is_settled: bool = False

    def start(self) -> None:
        """Send the call, or queue it until a slot is free. Its answer may come at once."""
        resolved = self.route.resolved
        self.audit.is_in_flight = True
        resolved.slot.used_at = self.audit.began
        self.register.enter(self.request.id, self)
        if self.usage is not None:
            self.usage.begin()
        self._at_child = ChildCall(
            resolved.child,
            resolved.ready,
            resolved.peer,
            self.call,
            self,
            self.progress,
            self,
            self.tasks,
        )
        self._at_child.begin()

    # The child's side

    @property
    def may_be_sent(self) -> bool:
        """Whether the verdict still holds, and the client reads its answers."""
        return self.register.has_room and self.route.still_holds

    def ended(self, result: CallResult) -> None:
        """Pass the result of the call on to the client; an error in the place of one too large."""
        self.is_settled = True
        try:
            if isinstance(result, Exception):
                self._ended_without_result(result)
                return
            limit = self.owner.services.max_result
            objection = None if limit is None else self._objection(result, limit)
            if objection is not None:
                result = failed(self.route.resolved.to.method, objection)
            if self.route.is_modern:
                result = self.route.complete(result)
            elif "outputSchema" in (tool := self.route.resolved.to.route.definition):
                result = for_legacy(result, tool)
            self.audit.write("admitted" if objection is None else "failed", objection)
            self._answer(Response(self.request.id, result))
        except RpcError as exc:
            self._fail(exc)
        except Exception:
            # Raised from here, it would end the child's connection, and the calls of others.
            log.exception("result not passed on", tool=self.route.resolved.to.route.name)
            self._fail(InternalError())

    def _objection(self, result: Payload, limit: ResultLimit) -> str | None:
        to = self.route.resolved.to
        objection = too_large(result, limit, f"server {to.spec.name!r}")
        if objection is not None:
            log.warning("result left out", tool=to.route.name, reason=objection)
        return objection

    def _ended_without_result(
        self, error: ChildError | RpcError | InputNeededError | StaleError
    ) -> None:
        match error:
            case StaleError():
                self._resolve_again()
            case ChildError():
                self._tell_unanswered(error)
            case InputNeededError():
                self._ask_by_result(error)
            case RpcError():
                self._fail(error)

    def _ask_by_result(self, needed: InputNeededError) -> None:
        """Fail with RpcError: only an `AskableCall` can ask its client by the request's result."""
        raise RpcError(INTERNAL_ERROR, str(needed))

    def _fail(self, error: RpcError) -> None:
        spec, state = self.route.resolved.to.spec, CallState(consented=self.consented)
        answer: Response | Failure = Failure(self.request.id, error.error)
        try:
            send_to_urls(self.owner.client, self.owner.notifier, spec, error, state)
        except InputNeededError as needed:
            answer = self._sent_to_urls(needed, answer)
        except RpcError as exc:
            answer = Failure(self.request.id, exc.error)
        self.audit.write("failed", str(error))
        self._answer(answer)

    def _sent_to_urls(
        self, needed: InputNeededError, answer: Response | Failure
    ) -> Response | Failure:
        """Return `answer`: only an `AskableCall` can ask its client by the request's result."""
        return answer

    def _tell_unanswered(self, error: ChildError) -> None:
        self.unanswered = error
        self.audit.write("failed", str(error))
        method = self.route.resolved.to.method
        self._answer(self.route.answer(self.request, lambda: failed(method, str(error))))

    def want_roots(self) -> bool:
        """Give the call up if its client was not asked for its roots; return whether it was not.

        Its route is resolved again, and then its client is asked.
        """
        if self.owner.unasked and not self.is_settled:
            self._take_back("it is made again")
            # The child has had it, and the client may never make it again.
            self.audit.write("cancelled", "its client is asked for its roots")
            self._resolve_again()
        return self.owner.unasked

    # The client's side

    def cancel(self, reason: str = UNSAID) -> None:
        """Cancel the call: the child is notified, the client gets no answer."""
        if self.is_settled:
            return  # the answer is being sent
        self._take_back(reason)
        self.audit.write("cancelled")
        if self._at_child is None or self._at_child.is_over:
            self._over()
            self.reply.give(None)
        else:
            # Its rounds first cancel their requests to the client.
            self.tasks.start_soon(self._end_late, self._at_child)

    async def _end_late(self, at_child: ChildCall) -> None:
        try:
            await at_child.over()
        finally:
            self._over()
            self.reply.give(None)

    def _take_back(self, reason: str) -> None:
        self.is_settled = True
        self.reason = reason
        if self._at_child is not None:
            self._at_child.cancel(reason)

    def _resolve_again(self) -> None:
        self._over()
        self.reply.resolve_again(self.request)

    def _answer(self, answer: Response | Failure) -> None:
        if self.has_told_all and self.reply.give(answer):
            self._over()
        else:
            self.tasks.start_soon(self._answer_late, answer)

    async def _answer_late(self, answer: Response | Failure) -> None:
        try:
            await self.flush()
            await self.reply.deliver(answer)
        finally:
            self._over()

    async def over(self) -> None:
        """Return once a call that was cancelled has taken back what it asked its client."""
        if self._at_child is not None:
            await self._at_child.over()

    def _over(self) -> None:
        self.is_settled = True
        self._at_child = None  # the two hold each other, and would wait for the garbage collector
        self.route.resolved.slot.used_at = self.owner.services.machine.clock()
        self.leave()

    def leave(self) -> None:
        """Let go of the request: it is answered, or never will be."""
        self.register.leave(self.request.id, self)
        if self.usage is not None:
            self.usage.end()
            self.usage = None


class AwaitedReply:
    """The reply sink of a call that a task has resolved, and waits for; also its registry.

    The task's request is registered already.
    """

    def __init__(self, asked: Asked) -> None:
        self.outlet = asked.outlet
        self._backlog = asked.backlog
        self._is_there = anyio.Event()
        self._answer: Answer = None
        self._is_stale = False

    async def result(self) -> Payload:
        """Return the result of the call.

        Raises: RpcError in the place of the result; StaleError if the call has to be resolved
            again.
        """
        await self._is_there.wait()
        if self._is_stale:
            raise StaleError
        match self._answer:
            case Response(result=result):
                return result
            case Failure(error=error):
                raise RpcError.received(error)
            case None:
                raise GoneError("the call was cancelled")

    def give(self, answer: Answer) -> bool:
        self._answer = answer
        self._is_there.set()
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self.give(answer)

    def resolve_again(self, request: Request) -> None:
        self._is_stale = True
        self._is_there.set()

    @property
    def has_room(self) -> bool:
        """Whether few enough answers wait for the client to read them."""
        return self._backlog.has_room

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Do nothing: the task's request is registered."""

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Do nothing."""


class KeptReply(AwaitedReply):
    """The reply sink of a detached call: it keeps the answer for the retry; `size` in bytes."""

    size = 0

    def give(self, answer: Answer) -> bool:
        self.size = 0 if answer is None else size_of_answer(answer)
        return super().give(answer)

    @property
    def is_over(self) -> bool:
        """Whether there is an answer, or the call has to be resolved again."""
        return self._is_there.is_set()

    async def pass_on(self, reply: ReplySink, request: Request) -> None:
        """Hand the answer over to the sink of a request."""
        if self._is_stale:
            reply.resolve_again(request)
        elif self._answer is None:
            reply.give(None)
        else:
            await reply.deliver(replace(self._answer, id=request.id))
