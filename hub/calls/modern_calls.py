"""Calls of modern clients by request: retries, `requestState`, `input_required` results."""

from __future__ import annotations

from functools import partial

from anyio.abc import TaskGroup

from hub.calls.askable_call import AskableCall
from hub.calls.dispatch import Relay
from hub.calls.in_flight import CallDispatcher, InFlightRegistry
from hub.calls.parking import Parking
from hub.calls.rounds.modern_routes import ModernRoute, RootsRequested
from hub.calls.rounds.sealed_state import StateSealer
from hub.children.clients import InputNeededError
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.peer import Asked, RpcError
from hub.protocol.constants import INTERNAL_ERROR
from hub.protocol.input_requests import ASKABLE
from hub.protocol.request_state import NO_RETRY, RetryInput, identity
from hub.sessions.client import Client
from hub.sessions.kept_roots import KeptAnswer, KeptRoots
from hub.sessions.notifications import RELAYED
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import JsonObject, SessionKey, object_or_empty


def can_be_asked(client: Client, method: str) -> bool:
    """Return whether a call of this method may have to wait for the client's input."""
    return method in ASKABLE and any(client.declares(name) for name in RELAYED)


class ModernCalls:
    """Serves the calls of all modern clients, one request at a time."""

    def __init__(self, relay: Relay, services: Services) -> None:
        self.kept = KeptRoots(services.settings.reuse, self._now)
        self.parking = Parking(relay, services.tasks)
        self._relay = relay
        self._machine = services.machine
        self._seals = StateSealer(self._now)

    def _now(self) -> float:
        return self._machine.clock()

    def route_for(
        self, principal: str, caller: str | None, request: Request
    ) -> ModernRoute | RootsRequested | None:
        """Return the cached route of a principal's call, or the result that asks for its roots.

        None if the call needs the general path. `caller` is the key of its kept roots, if any.
        """
        kept = self.kept.announced(caller)
        return self._relay.modern_routes.find(principal, request, kept)

    def kept_for(self, request: Request, caller: str | None) -> KeptAnswer | None:
        """Return the kept roots of `caller` that a request is judged by.

        A call handed over by the fast path keeps its own, even if they have expired since.
        """
        handed_over = self.parking.handed_over(request)
        if handed_over is None:
            return self.kept.of(caller)
        kept = handed_over.kept
        return None if kept is None else KeptAnswer(kept, self._now())

    def dispatcher(
        self, register: InFlightRegistry, tasks: TaskGroup, known_as: SessionKey
    ) -> CallDispatcher:
        """Return the fast-path dispatcher for one client; its calls ask by their results.

        `known_as` is the key that distinguishes the client from others.
        """
        made = partial(AskableCall, parking=self.parking, known_as=known_as)
        return CallDispatcher(register, tasks, made)

    def retry(self, request: Request, principal: str, *, is_complete: bool) -> RetryInput:
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
        known_by = identity(principal, request.method, params)
        opened = self._seals.open(state, known_by)
        if is_complete or opened.call_state.unasked:
            self._seals.spend(opened, principal)
        return RetryInput(opened.call_state, given, is_retry=True)

    async def found(
        self, session: Session, asked: Asked, retry: RetryInput, *, is_parking: bool
    ) -> Payload:
        """Return the result of one round. With `is_parking` the call closes the session itself.

        Raises: InputNeededError, and as `Relay.call` does.
        """
        if retry.state.parked is not None:
            return await self.parking.resume(session, asked, retry)
        if is_parking or self.parking.handed_over(asked.request):
            return await self.parking.call(session, asked, retry)
        return await self._relay.call(session, asked, retry)

    def wanting(self, needed: InputNeededError, request: Request, principal: str) -> JsonObject:
        """Return the `input_required` result that asks a client for input.

        Raises: RpcError for a method whose result may not ask.
        """
        if request.method not in ASKABLE:
            raise RpcError(INTERNAL_ERROR, f"input is needed, which {request.method} cannot get")
        known_by = identity(principal, request.method, request.params)
        return {
            "resultType": "input_required",
            **({"inputRequests": needed.requests} if needed.requests else {}),
            "requestState": self._seals.seal(needed.state, known_by, lasts=needed.lasts),
        }
