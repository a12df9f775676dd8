"""What a child asks and tells of its own accord, and who answers and hears it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

from anyio.abc import TaskGroup

from hub.children.clients import Caller, ChildUser, RootsNeededError
from hub.children.concurrency import FairLimiter, Preemption
from hub.children.log_levels import LogLevels
from hub.jsonrpc import messages
from hub.jsonrpc.encoding import size_of
from hub.jsonrpc.messages import Notification, Payload, as_object
from hub.jsonrpc.outgoing import Progress, RequestOwner, RequestWithin, token_in
from hub.jsonrpc.peer import Asked, GoneError, RpcError
from hub.jsonrpc.send_queue import SendQueue
from hub.paths.file_uris import uri_from_path
from hub.paths.resolve import Flavour
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from hub.protocol.input_requests import FOR_CLIENTS, inward
from hub.protocol.request_state import ChildInputRound
from hub.roots.roots import RootSet
from hub.specs import ServerSpec
from hub.values import Json, JsonObject, SessionKey, object_or_empty


class ChildRequest:
    """One question; what is reported waits for the child in `tasks`, and holds up no client."""

    def __init__(self, asked: Asked, tasks: TaskGroup) -> None:
        self._asked = asked
        self._token = token_in(asked.request.params)
        self._mailbox = SendQueue(tasks)

    @property
    def reason(self) -> str:
        """What is told of it when the child takes it back."""
        return self._asked.reason

    def served(self) -> RequestOwner | None:
        """Return on whose behalf the request is made that the child serves; None if it is not said.

        Raises: RpcError if that request is over.
        """
        request = self._asked.request
        if not isinstance(request, RequestWithin):
            return None
        waiter = self._asked.pending.waiting(request.within)
        if waiter is None:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        return waiter.request_owner

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the child gave no token."""
        return None if self._token is None else self._report

    async def _report(self, params: Payload) -> None:
        own: JsonObject = {**messages.as_object(params), "progressToken": self._token}
        report = Notification("notifications/progress", own)
        self._mailbox.put(lambda: self._send(report), size_of(params))

    async def _send(self, report: Notification) -> None:
        with suppress(GoneError):
            await self._asked.outlet.send(report)

    async def flush(self) -> None:
        """Return once all that was reported is on its way to the child."""
        await self._mailbox.flush()


@asynccontextmanager
async def as_child_request(asked: Asked, tasks: TaskGroup) -> AsyncGenerator[ChildRequest]:
    """Keep a question while it is answered; what is reported goes out before the answer."""
    question = ChildRequest(asked, tasks)
    try:
        yield question
    finally:
        await question.flush()


class ChildCallbacks:
    """One child's view of the clients before it.

    `roots` are those it is told when it asks. `unknown`: the clients have roots, and were not asked
    for them. `notifier` returns who is told what the child tells. `wanted_roots` is called when a
    child asks for roots that loses its call by that.
    """

    def __init__(  # noqa: PLR0913 - each is one thing that a child may be told, or somebody of it
        self,
        spec: ServerSpec,
        roots: RootSet,
        flavour: Flavour,
        *,
        unknown: bool = False,
        notifier: Callable[[], Mapping[SessionKey, ChildUser]] = dict,
        wanted_roots: Callable[[], None] = lambda: None,
    ) -> None:
        self.spec = spec
        self.roots = roots
        self.unknown = unknown
        self.limiter = FairLimiter(spec)
        self.levels = LogLevels()
        self._flavour = flavour
        self._notifier = notifier
        self._wanted_roots = wanted_roots
        self._private: str | None = None
        self._calls: dict[Caller, None] = {}
        self.preemption = Preemption(self._calls.keys(), waiting=lambda: self.limiter.wanted)
        self._subscribers: dict[str, set[SessionKey]] = {}

    def opened(self, private: str | None) -> None:
        """Take note of the empty directory that the child was launched on, if it was."""
        self._private = private

    def share(self, roots: RootSet) -> None:
        """Tell the child these roots from now on."""
        self.roots = roots

    @property
    def busy(self) -> int:
        """How many calls are under way."""
        return len(self._calls)

    def serves(self, session: SessionKey) -> bool:
        """Return whether calls of a session are under way."""
        return any(asker.session == session for asker in self._calls)

    def serves_others(self, sessions: Container[SessionKey]) -> bool:
        """Return whether calls of none of these sessions are under way."""
        return any(asker.session not in sessions for asker in self._calls)

    @contextmanager
    def during(self, asker: Caller) -> Generator[None]:
        """Count `asker` among those whose calls are under way."""
        self.begin(asker)
        is_answered = False
        try:
            yield
            is_answered = True
        except RpcError:
            is_answered = True
            raise
        finally:
            self.end(asker)
            self.preemption.ended(asker, is_answered=is_answered)
            if not is_answered:
                self.preemption.gave_up(asker)

    def begin(self, asker: Caller) -> None:
        """Count a call; `end` must follow."""
        self._calls[asker] = None

    def replace(self, asker: Caller, by: Caller) -> None:
        """Let a call that is counted be another's: it began when it did."""
        calls = [by if one is asker else one for one in self._calls]
        self._calls.clear()
        self._calls.update(dict.fromkeys(calls))

    def end(self, asker: Caller) -> None:
        """Count a call no more."""
        del self._calls[asker]

    async def answer(
        self,
        method: str,
        params: JsonObject,
        asker: Caller | None,
        question: ChildRequest | None = None,
    ) -> Payload:
        """Answer a child's request: pings and roots here, what is for a client by that client.

        Which one is meant, `asker` says: the one whose call the child serves; or else the child's
        `question` may. Its child hears of progress, and may take it back.

        Raises: RpcError where there is no such client, or it refuses.
        """
        if method == "ping":
            return {}
        if method == "roots/list" and self.spec.answer_roots:
            if asker is None:
                self._wanted_roots()
            if self.unknown and self._calls:
                self._ask_again(asker)
            return {"roots": self._shared_roots()}
        if method in FOR_CLIENTS:
            asker = asker or self._meant(question) or await self._sole_asker(method)
            return await asker.ask(method, params, question)
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _ask_again(self, asker: Caller | None) -> None:
        """Let the call come again, with its client's roots, that the child asks on behalf of.

        Raises: RootsNeededError where the call is known; RpcError for the child.
        """
        if asker is not None and asker.want_roots():
            raise RootsNeededError
        if len(self._calls) == 1 and next(iter(self._calls)).want_roots():
            raise RpcError(
                INTERNAL_ERROR, "the client is asked for its roots: the call is made again"
            )
        raise RpcError(
            INTERNAL_ERROR, "the client's roots are not known, and it cannot be asked now"
        )

    async def inputs(self, wanted: JsonObject, asker: Caller) -> JsonObject:
        """Answer the requests in a modern child's `input_required` result, for the retry.

        Raises: RpcError; InputNeededError if the client answers with a retry of its own.
        """
        state = wanted.get("requestState")
        theirs: dict[str, JsonObject] = {}
        own: JsonObject = {}
        answers: JsonObject = {}
        wants_roots = False
        for key, request in object_or_empty(wanted.get("inputRequests")).items():
            asked = object_or_empty(request)
            method = asked.get("method")
            if method in FOR_CLIENTS:
                theirs[key] = asked
                continue
            own[key] = method
            if method == "roots/list" and self.unknown:
                wants_roots = True
            else:
                answers[key] = self._own_answer(method)
        if not own and not theirs and state is None:
            raise RpcError(
                INTERNAL_ERROR, f"server {self.spec.name!r} asks for input, but for none"
            )
        if theirs or not own or wants_roots:
            round_ = ChildInputRound(self.spec.name, tuple(theirs), own, state, wants_roots)
            answers |= await asker.inputs(self.spec, theirs, round_)
        return _retry(answers, state)

    async def resumed(self, asker: Caller) -> JsonObject:
        """Return what the first request of a call has to bring to a modern child.

        That is what its client answers, if it was asked in a round before this one.

        Raises: RpcError if it was another child that asked.
        """
        retry = asker.retry
        child = retry.state.child
        if child is None:
            return {} if retry.is_retry else _retry(inward(retry.responses, None), None)
        if child.server != self.spec.name:
            raise RpcError(INVALID_PARAMS, f"requestState is not for server {self.spec.name!r}")
        answers: JsonObject = {key: self._own_answer(method) for key, method in child.own.items()}
        return _retry({**answers, **inward(retry.responses, child.keys)}, child.state)

    def _own_answer(self, method: Json) -> JsonObject:
        if method == "ping":
            return {}
        if method == "roots/list" and self.spec.answer_roots:
            # Who asks by its result can be answered then: nobody needs to be asked beforehand.
            return {"roots": self._shared_roots()}
        # Not -32601: that would say to the client that its own request's method is unknown.
        raise RpcError(
            INTERNAL_ERROR,
            f"server {self.spec.name!r} asks for {method}, which nobody answers here",
        )

    def _shared_roots(self) -> list[Json]:
        """Return the effective roots; never none, on which some servers keep their old ones."""
        if self.roots.roots:
            return [
                {"uri": root.uri, **({"name": root.name} if root.name else {})}
                for root in self.roots.roots
            ]
        return [{"uri": uri_from_path(self._private, self._flavour)}] if self._private else []

    def _meant(self, question: ChildRequest | None) -> Caller | None:
        """Return the client whose call a child says that it serves; None if it does not say.

        Raises: RpcError if that call is over.
        """
        served = None if question is None else question.served()
        return next((asker for asker in self._calls if asker is served), None)

    async def _sole_asker(self, method: str) -> Caller:
        """Return the client a legacy child means that does not say: there must be just one.

        Clients that are away are none as soon as the child has answered their calls; those whose
        calls were given up not long ago are still.
        """
        parties = {asker.party for asker in self._calls}
        here = [asker for asker in reversed(self._calls) if asker.is_present]
        present = {asker.party for asker in here}
        sole = parties if len(parties) == 1 else present
        if len(sole) == 1 and self.preemption.lingering() <= sole:
            others = [asker for asker in self._calls if asker.party not in sole]
            is_plain = not others or await self.preemption.until_answered(others)
            left = [asker for asker in reversed(self._calls) if asker.party in sole]
            if is_plain and left:
                return next((asker for asker in left if asker.is_present), left[0])
        whose = "several clients have calls" if parties else "no client has a call"
        raise RpcError(
            METHOD_NOT_FOUND,
            f"{method} cannot be passed on: {whose} under way (share: session helps)",
        )

    # Subscriptions: the child knows of one client only, and several may want the same resource

    def has(self, uri: str, session: SessionKey) -> bool:
        """Return whether a session has subscribed to a resource here."""
        return session in self._subscribers.get(uri, ())

    def subscribe(self, uri: str, session: SessionKey) -> None:
        """Count a session among those that have subscribed to a resource."""
        self._subscribers.setdefault(uri, set()).add(session)

    def unsubscribe(self, uri: str, session: SessionKey) -> bool:
        """Count a session no more; returns whether nobody is left who wants to be told."""
        left = self._subscribers.get(uri, set()) - {session}
        if left:
            self._subscribers[uri] = left
        else:
            self._subscribers.pop(uri, None)
        return not left

    def leave(self, session: SessionKey) -> list[str]:
        """End all of a session's subscriptions; returns to what nobody is subscribed any more."""
        own = [uri for uri, who in self._subscribers.items() if session in who]
        return [uri for uri in own if self.unsubscribe(uri, session)]

    async def spread(self, notification: Notification) -> None:
        """Tell every client that uses the child, those with a call under way through that call."""
        callers = {asker.session: asker for asker in self._calls}
        for session, asker in callers.items():
            if asker.log_level is not None or not self._is_spared(session, notification):
                await asker.tell(self.spec, notification)
        for session, user in self._notifier().items():
            if session not in callers and not self._is_spared(session, notification):
                await user.told(self.spec, notification)

    def _is_spared(self, session: SessionKey, notification: Notification) -> bool:
        if notification.method != "notifications/message" or self.levels.told is None:
            return False
        return self.levels.is_filtered(session, as_object(notification.params).get("level"))

    async def came(self) -> None:
        """Tell every client that uses the child that it answers calls now."""
        for user in self._notifier().values():
            await user.came(self.spec)


def _retry(answers: JsonObject, state: Json) -> JsonObject:
    """Return the fields by which a request of the modern era continues an earlier one."""
    responses: JsonObject = {"inputResponses": answers} if answers else {}
    return responses if state is None else {**responses, "requestState": state}
