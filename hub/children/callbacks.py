"""Answers a child's requests, forwards its notifications, and keeps its subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import Self

from anyio.abc import TaskGroup

from hub.children.asking.asking_line import AskingLine, ToolHabits, tool_of
from hub.children.asking.open_questions import OpenQuestions
from hub.children.clients import Caller, ChildUser, LogLevels
from hub.children.concurrency import FairLimiter, Preemption
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Notification, Payload, as_object, size_of
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import Progress, RequestOwner, RequestWithin, token_in
from hub.jsonrpc.send_queue import SendQueue
from hub.paths.file_uris import uri_from_path
from hub.paths.resolve import Flavour
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from hub.protocol.input_requests import FOR_CLIENTS, ChildInputRound, inward
from hub.roots.roots import RootSet
from hub.specs import ServerSpec
from hub.values import Call, Json, JsonObject, SessionKey, object_or_empty


class ChildRequest:
    """One request from the child, answered within its context.

    Progress reports on it queue in `tasks` and delay no client; they go out before the response.
    """

    def __init__(self, asked: Asked, tasks: TaskGroup) -> None:
        self._asked = asked
        self._token = token_in(asked.request.params)
        self._send_queue = SendQueue(tasks)

    @property
    def reason(self) -> str:
        """The child's reason for cancelling this request, to pass on to the client."""
        return self._asked.reason

    def served(self) -> RequestOwner | None:
        """Return the owner of the call that is named, or None. Raises: RpcError if it is over."""
        request = self._asked.request
        if not isinstance(request, RequestWithin):
            return None
        waiter = self._asked.pending.get(request.within)
        if waiter is None:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        return waiter.request_owner

    @property
    def progress(self) -> Progress | None:
        """The callback for progress reports; None if the child gave no progress token."""
        return None if self._token is None else self._report

    async def _report(self, params: Payload) -> None:
        own: JsonObject = {**messages.as_object(params), "progressToken": self._token}
        report = Notification("notifications/progress", own)
        self._send_queue.put(lambda: self._send(report), size_of(params))

    async def _send(self, report: Notification) -> None:
        with suppress(GoneError):
            await self._asked.outlet.send(report)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._send_queue.flush()


class ChildCallbacks:
    """What one child may ask of the hub and its clients, and who gets its notifications.

    `calls` are those in flight at the child.
    `roots` is the response to `roots/list`. `unknown`: the clients have roots, but the hub has not
    asked for them yet. `notifier` returns the users to notify, by session. `wanted_roots` is called
    when the child sends a `roots/list` request. `private_directory` is the empty one that the child
    was launched in, if there is one.
    """

    def __init__(  # noqa: PLR0913 - independent settings and callbacks
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
        self.levels = LogLevels()
        self._flavour = flavour
        self._notifier = notifier
        self._wanted_roots = wanted_roots
        self.private_directory: str | None = None
        self.calls: dict[Caller, Call] = {}
        self.limiter = FairLimiter(spec, self.calls)
        self.habits = ToolHabits()
        self.questions = OpenQuestions(spec, self.calls, self.habits)
        self.line = AskingLine(
            spec,
            self.habits,
            self.calls.keys(),
            is_holding=self.questions.is_holding,
            abandoned=self.questions.abandoned,
        )
        self.preemption = Preemption(
            self.calls.keys(),
            waiting=lambda: self.limiter.wanted + self.line.wanted,
            is_needed=self.questions.holds_for,
        )
        self._subscribers: dict[str, set[SessionKey]] = {}

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec`, a changed config's, from the next call and question on."""
        self.spec = spec
        for part in (self.limiter, self.line, self.questions):
            part.follow(spec)

    @property
    def busy(self) -> int:
        """The number of calls in flight."""
        return len(self.calls)

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight, and none waits for a slot or until the child may ask."""
        return not (self.calls or self.line.has_waiting or self.limiter.wanted)

    def serves(self, session: SessionKey) -> bool:
        """Return whether `session` has calls in flight."""
        return any(caller.session == session for caller in self.calls)

    def serves_others(self, sessions: Container[SessionKey]) -> bool:
        """Return whether a session that is not in `sessions` has calls in flight."""
        return any(caller.session not in sessions for caller in self.calls)

    def begin(self, caller: Caller, call: Call) -> None:
        """Add a call to those in flight, which takes a slot; `end` must follow."""
        self.calls[caller] = call
        if self.line.is_active:
            self.line.sent(caller)

    def learn(self, caller: Caller, result: Payload) -> None:
        """Record that the tool of an answered call does not ask, unless the call may have asked.

        A call that failed may not have come as far as its question.
        """
        tool = tool_of(self.calls[caller])
        if self.habits.is_unknown(tool) and self.questions.is_clear(caller):
            with suppress(WireError):
                if as_object(result).get("isError") is not True:
                    self.habits.finished(tool)

    def end(self, caller: Caller, *, is_answered: bool) -> None:
        """Remove a call from those in flight; record whether the child has answered it.

        The next call that waits for a slot gets this one.
        """
        call = self.calls.pop(caller)
        if self.line.is_active or not is_answered:
            self.questions.ended(caller, call, is_answered=is_answered)
            self.line.over(caller)
        if self.limiter.turns:
            self.limiter.give()

    async def answer(
        self, method: str, params: JsonObject, question: ChildRequest | None = None
    ) -> Payload:
        """Answer a child's request: pings and roots here, other requests by asking a client.

        `question` may name the call whose client that is; else there must be only one possible
        client. Progress reports and a cancellation by the child go through `question`.

        Raises: RpcError if there is no such client, or the client refuses.
        """
        if method == "ping":
            return {}
        if method == "roots/list" and self.spec.answer_roots:
            self._wanted_roots()
            if self.unknown and self.calls:
                raise self._asked_again()
            return {"roots": self._shared_roots()}
        if method in FOR_CLIENTS:
            caller = self._meant(question)
            if caller is not None:
                return await caller.ask(method, params, question)
            return await self._ask_whose_it_is(method, params, question)
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    async def _ask_whose_it_is(
        self, method: str, params: JsonObject, question: ChildRequest | None
    ) -> Payload:
        """Pass on a question of a child that does not say for which call it asks."""
        self.line.is_active = True
        try:
            caller = await self.questions.source(method)
        finally:
            self.line.move()
        with self.line.asking(caller, self.questions.tool_asking(caller)):
            return await caller.ask(method, params, question)

    def _asked_again(self) -> RpcError:
        """End the call that needs roots, if it is known, so that its client repeats it with them.

        Returns the error for the child.
        """
        why = "the client's roots are not known, and it cannot be asked now"
        if len(self.calls) == 1 and next(iter(self.calls)).want_roots():
            why = "the client is asked for its roots: the call is made again"
        return RpcError(INTERNAL_ERROR, why)

    async def inputs(self, wanted: JsonObject, caller: Caller) -> JsonObject:
        """Answer the requests in a modern child's `input_required` result, as the retry's params.

        Raises: RpcError; InputNeededError if the client must be asked by the result of its own
            call.
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
            answers |= await caller.inputs(self.spec, theirs, round_)
        return _retry(answers, state)

    def resumed(self, caller: Caller) -> JsonObject:
        """Return the fields to add to the first request that a modern child gets for this call.

        They hold the client's responses, if the client was asked in an earlier round.

        Raises: RpcError if another child had asked.
        """
        retry = caller.retry
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
            # This child gets its answer in the retry, so the hub need not ask a client beforehand.
            return {"roots": self._shared_roots()}
        # Not -32601: the client would read that as "the method of my own request is unknown".
        raise RpcError(
            INTERNAL_ERROR,
            f"server {self.spec.name!r} asks for {method}, which nobody answers here",
        )

    def _shared_roots(self) -> list[Json]:
        """Return the effective roots for `roots/list`; without any, the child's private directory.

        Some servers keep their old roots when they get an empty list; a remote child may get one.
        """
        if self.roots.roots:
            return [
                {"uri": root.uri, **({"name": root.name} if root.name else {})}
                for root in self.roots.roots
            ]
        private = self.private_directory
        return [{"uri": uri_from_path(private, self._flavour)}] if private else []

    def _meant(self, question: ChildRequest | None) -> Caller | None:
        """Return the caller of the call that is named, or None. Raises: RpcError if it is over."""
        served = None if question is None else question.served()
        return next((caller for caller in self.calls if caller is served), None)

    # Subscriptions: the child sees one client, but several sessions may want a resource

    def has(self, uri: str, session: SessionKey) -> bool:
        """Return whether `session` has subscribed to the resource `uri` of this child."""
        return session in self._subscribers.get(uri, ())

    def has_subscribers(self, uri: str) -> bool:
        """Return whether any session has subscribed to the resource `uri` of this child."""
        return uri in self._subscribers

    def subscribe(self, uri: str, session: SessionKey) -> None:
        """Add `session` to the subscribers of `uri`."""
        self._subscribers.setdefault(uri, set()).add(session)

    def unsubscribe(self, uri: str, session: SessionKey) -> bool:
        """Remove `session` from the subscribers of `uri`; return whether no subscriber is left."""
        left = self._subscribers.get(uri, set()) - {session}
        if left:
            self._subscribers[uri] = left
        else:
            self._subscribers.pop(uri, None)
        return not left

    def leave(self, session: SessionKey) -> list[str]:
        """End all subscriptions of a session; return the URIs that have no subscriber left."""
        own = [uri for uri, who in self._subscribers.items() if session in who]
        return [uri for uri in own if self.unsubscribe(uri, session)]

    async def spread(self, notification: Notification) -> None:
        """Send a notification to each client of the child, within its call if one is in flight."""
        callers = {caller.session: caller for caller in self.calls}
        for session, caller in callers.items():
            if caller.log_level is not None or not self._is_spared(session, notification):
                await caller.tell(self.spec, notification)
        for session, user in self._notifier().items():
            if session not in callers and not self._is_spared(session, notification):
                await user.told(self.spec, notification)

    def _is_spared(self, session: SessionKey, notification: Notification) -> bool:
        if notification.method != "notifications/message" or self.levels.told is None:
            return False
        return self.levels.is_filtered(session, as_object(notification.params).get("level"))

    async def came(self) -> None:
        """Tell every user of the child that the child answers calls now."""
        for user in self._notifier().values():
            await user.came(self.spec)


def _retry(answers: JsonObject, state: Json) -> JsonObject:
    """Return the params by which a modern request continues an earlier one."""
    responses: JsonObject = {"inputResponses": answers} if answers else {}
    return responses if state is None else {**responses, "requestState": state}
