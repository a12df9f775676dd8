"""Calls of modern clients by request: retries, `requestState`, `input_required` results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from hub.calls.caller import ClientCaller
from hub.calls.dispatch import CallDispatcher, RequestRegistry
from hub.calls.in_flight import AwaitedReply
from hub.calls.judging import JudgingContext, Snapshot
from hub.calls.lookup import insufficient
from hub.calls.resolve import MAX_JUDGEMENTS, TOO_FAST, Relay, result_of
from hub.calls.rounds.askable_call import AskableCall, Dialogue
from hub.calls.rounds.modern_routes import Headers, ModernRoute
from hub.calls.rounds.sealed_state import StateSealer
from hub.calls.routes import KnownAnswer
from hub.children.clients import InputNeededError, RootsNeededError, StaleError
from hub.children.failures import failed
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.rated_log import RatedLog
from hub.jsonrpc.requests import token_in
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.input_requests import ASKABLE, NO_RETRY, ROOTS, RetryInput, call_digest
from hub.roots.roots import Announcement
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.system.tasks import TaskStarter
from hub.usage.principals import underway
from hub.values import LOCAL, STDIO, JsonObject, SessionKey, object_or_empty

MAX_PARKED: Final = 256
"""How many calls may wait for their clients' answers; beyond, a child's request is refused."""
MAX_PARKED_OF_ONE: Final = 64
"""How many of these calls one principal may have."""
MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the answers that are kept for these calls' clients; beyond, the oldest are dropped."""
MAX_KEPT: Final = 1024
"""Number of clients whose roots are kept; the oldest are dropped first."""
_ENDED = (
    "requestState is not valid: its call has ended, or runs in another process of the hub; "
    "make the call again without it"
)


class ParkedCalls:
    """The calls whose children have asked their clients, by the key that the clients bring back."""

    def __init__(self) -> None:
        self._dialogues: dict[str, Dialogue] = {}
        self._log = RatedLog({"about": "calls that wait for their clients"})

    def find(self, key: str | None) -> Dialogue | None:
        """Return the call of a key; None if it has ended."""
        return self._dialogues.get(key or "")

    def add(self, one: Dialogue) -> None:
        """Register a call that waits for its client; if there are too many, cancel an old one.

        Raises: RpcError if there are too many, and none was abandoned.
        """
        if one.key in self._dialogues:
            return
        of_one = [other for other in self._dialogues.values() if other.principal == one.principal]
        if len(of_one) >= MAX_PARKED_OF_ONE:
            self._cancel_one(of_one)
        elif len(self._dialogues) >= MAX_PARKED:
            self._cancel_one(self._by_principals())
        self._dialogues[one.key] = one

    def remove(self, one: Dialogue) -> None:
        """Forget a call that no retry can attach any more."""
        self._dialogues.pop(one.key, None)

    def make_room(self) -> None:
        """Drop kept answers beyond `MAX_KEPT_BYTES`: the oldest of the principal with the most."""
        kept = [one for one in self._dialogues.values() if one.kept_size]
        while sum(one.kept_size for one in kept) > MAX_KEPT_BYTES:
            sizes = Counter[str]()
            for one in kept:
                sizes[one.principal] += one.kept_size
            ((most, _),) = sizes.most_common(1)
            oldest = next(one for one in kept if one.principal == most)
            self._log.warning(
                "answer dropped: its client has not come back", bytes=oldest.kept_size
            )
            kept.remove(oldest)
            oldest.call.cancel()
            oldest.call.reply.give(None)  # the call may be referenced for longer

    def _by_principals(self) -> list[Dialogue]:
        """Return all calls, those of the principal with the most first, then by age."""
        calls = list(self._dialogues.values())
        counts = Counter(one.principal for one in calls)
        return sorted(calls, key=lambda one: -counts[one.principal])

    def _cancel_one(self, calls: Sequence[Dialogue]) -> None:
        """Cancel the first of `calls` that was abandoned by its client.

        Raises: RpcError if there is none.
        """
        left = next((one for one in calls if one.is_abandoned), None)
        if left is None:
            self._log.warning("not asked: too many calls wait for their clients", of_one=len(calls))
            raise RpcError(INTERNAL_ERROR, "too many calls wait for their clients' answers")
        self.remove(left)
        left.call.cancel("its client has not come back, and others ask")


class KeptAnswer(Struct, frozen=True):
    """The roots that a client announced, and when (seconds of the hub's clock)."""

    announcement: Announcement
    at: float


class KeptRoots:
    """The newest answer of each client (`client_key_of`), kept for `reuse()` seconds; 0 keeps none.

    Without `roots.reuse` an answer counts for its own request alone. Only an authenticated
    principal and a stdio connection can be told from other clients.
    """

    def __init__(
        self, reuse: Callable[[], float], clock: Callable[[], float], *, max_kept: int = MAX_KEPT
    ) -> None:
        self._max_kept = max_kept
        self._reuse = reuse
        self._clock = clock
        self._kept: dict[str, KeptAnswer] = {}

    def keep(self, client: str | None, announcement: Announcement) -> None:
        """Keep an answer; it replaces the last one of the same `client`."""
        if client is None or not self._reuse():
            return
        self._kept.pop(client, None)
        while len(self._kept) >= self._max_kept:
            del self._kept[next(iter(self._kept))]
        self._kept[client] = KeptAnswer(announcement, self._clock())

    def of(self, client: str | None) -> KeptAnswer | None:
        """Return the last answer of `client`; None if there is none or it is too old."""
        kept = self._kept.get(client) if client is not None else None
        if kept is None or self._clock() - kept.at < self._reuse():
            return kept
        del self._kept[client or ""]
        return None

    def announced(self, client: str | None) -> Announcement | None:
        """Return the roots in the last answer of `client`; None as `of`."""
        kept = self.of(client)
        return None if kept is None else kept.announcement


def client_key_of(principal: str, connection: SessionKey | None) -> str | None:
    """Return the key under which a client's answers are kept; None if it is not identifiable.

    Only over stdio does the `connection` identify the client.
    """
    if principal == STDIO:
        return f"{principal} {connection}"
    return None if principal == LOCAL else principal


class ModernCalls:
    """Serves the calls of all modern clients, one request at a time; implements `AskableCalls`."""

    def __init__(self, relay: Relay, services: Services, seals: StateSealer | None = None) -> None:
        self.kept = KeptRoots(lambda: services.settings.reuse, services.machine.clock)
        self.tasks = services.tasks
        self.parked = ParkedCalls()
        self._relay = relay
        self._machine = services.machine
        self._seals = seals or StateSealer(self._wall_clock)

    def _wall_clock(self) -> float:
        return self._machine.wall_clock()

    def route_for(
        self, identity: str, client: str | None, request: Request, headers: Headers | None = None
    ) -> ModernRoute | KnownAnswer | None:
        """Return the cached route of a client's call, or the result that asks for its roots.

        None if the route has to be resolved. `client` is the key of its kept roots, if any.
        """
        kept = self.kept.announced(client)
        return self._relay.modern_routes.find(identity, request, kept, headers)

    def dispatcher(
        self, register: RequestRegistry, tasks: TaskStarter, known_as: SessionKey
    ) -> CallDispatcher:
        """Return the dispatcher for one client; its calls ask by their results.

        `known_as` is the key that distinguishes the client from others.
        """
        return CallDispatcher(register, tasks, partial(AskableCall, calls=self, known_as=known_as))

    def retry(self, request: Request, identity: str, *, is_complete: bool) -> RetryInput:
        """Return the retry input of a request: its opened `requestState` and its responses.

        The state is then used up, unless the request is incomplete and has to be sent again. A call
        whose client was not asked for its roots is complete without them.

        Raises: RpcError for a state of another call or client, or one that is expired or used.
        """
        params = request.params
        state, responses = params.get("requestState"), params.get("inputResponses")
        if request.method not in ASKABLE:
            return NO_RETRY
        given = object_or_empty(responses)
        if state is None:
            return RetryInput(responses=given)
        known_by = call_digest(identity, request.method, params)
        opened = self._seals.open(state, known_by)
        if is_complete or opened.call_state.unasked:
            self._seals.spend(opened, identity)
        return RetryInput(opened.call_state, given, is_retry=True)

    async def result(self, session: Session, asked: Asked, retry: RetryInput) -> Payload:
        """Return the result of one request of a call.

        Raises: InputNeededError, and as `Relay.call` does.
        """
        if retry.state.parked is not None:
            # It is counted, but not refused: its call is under way already.
            services = session.services
            usage = services.usage.of(session.principal, services.profile)
            with nullcontext() if usage is None else underway(usage):
                return await self._resumed(session, asked, retry)
        make = partial(AskableCall, calls=self, known_as=session.party)
        return await self._relay.call(session, asked, retry, make)

    async def _resumed(self, session: Session, asked: Asked, retry: RetryInput) -> Payload:
        """Return the result of a parked call, or its refusal by the roots of the retry."""
        dialogue = self.parked.find(retry.state.parked)
        if dialogue is None:
            raise RpcError(INVALID_PARAMS, _ENDED)
        call, dialogue.is_claimed = dialogue.call, True
        try:
            refusal = await self._refusal(session, asked, call, retry)
        except BaseException as exc:
            call.audit.close(exc)
            call.cancel(asked.reason)
            raise
        if refusal is not None:
            call.cancel()
            return refusal
        reply = AwaitedReply(asked)
        token = token_in(asked.request.params)
        speaker = ClientCaller(session, asked.outlet, token, self.tasks, retry=retry)
        try:
            await dialogue.come_back(speaker, reply, asked.request)
            return await result_of(call, reply, asked)
        except StaleError:
            raise RootsNeededError from None
        except GoneError:  # it was cancelled while it was judged again
            raise RpcError(INVALID_PARAMS, _ENDED) from None
        except anyio.get_cancelled_exc_class():
            call.cancel(asked.reason)
            raise

    async def _refusal(
        self, session: Session, asked: Asked, call: AskableCall, retry: RetryInput
    ) -> Payload | None:
        """Return why a parked call may not go on with a retry, as its result; None if it may.

        It is judged by the roots of the retry, and by the config of now: the child gets the answers
        after this.

        Raises: RouteError if the config does not offer any more what is called;
            InsufficientScopeError; RpcError for the refusal of a prompt or a resource.
        """
        resolved, method = call.route.resolved, call.route.resolved.to.method
        for _ in range(MAX_JUDGEMENTS):
            self._check_scopes(session, asked, call)
            effective = await session.effective(asked.outlet)
            to = resolved.to.renewed(session.services)
            may_ask = to.guard.policy.policy.on_refused == "ask"
            case = JudgingContext(
                session=session,
                asked=asked,
                call=call.call,
                to=to,
                snapshot=Snapshot.of(session, to.spec, effective, resolved.slot),
                retry=retry,
                granted=call.granted if may_ask else (),
            )
            refusal = await self._relay.judge_again(case, call.audit)
            if refusal is not None or case.is_newest:
                return refusal
        call.audit.write("failed", TOO_FAST)
        return failed(method, TOO_FAST)

    @staticmethod
    def _check_scopes(session: Session, asked: Asked, call: AskableCall) -> None:
        """Check the scopes of a retry: its token may be another one than its call's.

        Raises: InsufficientScopeError, which is recorded as the end of the call.
        """
        to = call.route.resolved.to
        spec = session.services.servers.get(to.spec.name, to.spec)
        error = insufficient(asked, spec, to.method, to.route.name)
        if error is not None:
            call.audit.write("refused", str(error))
            raise error

    def input_required(
        self, needed: InputNeededError, request: Request, session: Session
    ) -> JsonObject:
        """Return the `input_required` result that asks a client for input, and for its roots.

        Responses count for one retry alone, so the next retry must bring the roots again.

        Raises: RpcError for a method whose result may not ask.
        """
        if request.method not in ASKABLE:
            raise RpcError(INTERNAL_ERROR, f"input is needed, which {request.method} cannot get")
        client, child = session.client, needed.state.child
        unasked = session.unasked and not (child is not None and child.wants_roots)
        declares = client is not None and client.declares("roots")
        requests = {**(ROOTS if declares and not unasked else {}), **needed.requests}
        state = replace(needed.state, unasked=unasked)
        known_by = call_digest(session.identity, request.method, request.params)
        return {
            "resultType": "input_required",
            **({"inputRequests": requests} if requests else {}),
            "requestState": self._seals.seal(state, known_by, lasts=needed.lasts),
        }
