"""A fast-path call of a modern client that may have to be asked for input (`AskableCall`).

A modern client is asked by its request's result. So with the child's first request the call is
handed over to `Parking`: from then on its request is answered on the general path.
"""

from __future__ import annotations

from hub.calls.era_bridge import send_to_urls
from hub.calls.in_flight import InFlightCall
from hub.calls.parking import HandedOver, Parking
from hub.calls.results import renumbered
from hub.calls.rounds.modern_routes import ModernRoute
from hub.calls.rounds.parked_call import ParkedCall
from hub.children.clients import Caller, InputNeededError, RootsNeededError
from hub.children.failures import tool_error
from hub.errors import ChildError
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.outgoing import UNSAID, Progress, RequestOwner
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import INTERNAL_ERROR
from hub.sessions.notifications import require_taken
from hub.values import JsonObject, SessionKey


class AskableCall(InFlightCall, eq=False, kw_only=True):
    """One call in flight; once it is handed over, `parking` gets its outcome.

    `known_as` is the key of the client that would answer: the owner of the route may be another
    client, which called the tool before.
    """

    parking: Parking
    known_as: SessionKey
    _handed: HandedOver | None = None

    # The `Caller` of the child

    @property
    def party(self) -> SessionKey:
        return self.known_as

    @property
    def progress(self) -> Progress | None:
        return super().progress if self._handed is None else self._handed.parked.progress

    @property
    def request_owner(self) -> Caller:
        return self if self._handed is None else self._handed.parked

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Ask the client by the result of its request; return its answer.

        Raises: RpcError if the call is over, and as `ParkedCall.ask`.
        """
        require_taken(self.owner.client, method, params)
        if self._handed is None and self._is_settled:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        handed = self._handed or self._hand_over()
        return await handed.parked.ask(method, params, request_owner)

    def _hand_over(self) -> HandedOver:
        """Hand the call over to `parking`, and its request to the general path."""
        resolved, kept = (
            self.route.resolved,
            self.route.kept if isinstance(self.route, ModernRoute) else None,
        )
        parked = ParkedCall(self, self.parking.park, _Stop(self))
        self._handed = handed = HandedOver(
            parked, self.request, self.call, resolved.guard, resolved.slot, kept
        )
        if not self._is_settled:
            resolved.child.answers.replace(self, parked)
        self.parking.hand_over(handed)
        self.dispatcher.register.leave(self.request.id, self)
        self.reply.detour(self.request)
        return handed

    # The end of the call

    def _came(self, result: Payload) -> None:
        if self._handed is None:
            super()._came(result)
        else:
            complete = self.route.complete(result)
            self._note("admitted")
            self._end(complete, is_answered=True)

    def _failed(self, error: RpcError) -> None:
        try:
            send_to_urls(
                self.owner.client, self.owner.notifier, self.route.resolved.slot.spec, error
            )
        except InputNeededError as needed:
            self._note("failed", str(error))
            self._end_asking(needed)
            return
        if self._handed is None:
            super()._failed(renumbered(error))
        else:
            self._note("failed", str(error))
            self._end(error, is_answered=True)

    def _wants(self, needed: InputNeededError) -> None:
        self._note("admitted")
        self._end_asking(needed)

    def _end_asking(self, needed: InputNeededError) -> None:
        """End the call with an `input_required` result; the client's retry is a new call."""
        if self._handed is None:
            self._hand_over()
        self._end(needed, is_answered=True)

    def _say(self, error: ChildError) -> None:
        if self._handed is None:
            super()._say(error)
        else:
            self._note("failed", str(error))
            self._end(tool_error(str(error)))

    def cancel(self, reason: str = UNSAID) -> None:
        """Cancel the call for its client, unless its request has arrived on the general path."""
        if self._handed is None:
            super().cancel(reason)
        elif self.parking.take_back(self._handed):
            self._handed.parked.give_up(reason)

    def stop(self) -> None:
        """Cancel a call that was handed over; do nothing if it was not, or has ended."""
        if self._handed is not None and not self._is_settled:
            self._withdraw(self._handed.parked.reason)
            self._note("cancelled")
            self._end(None)

    def start_over(self) -> None:
        """Cancel the call at its child, which needs roots; the client sends it again with them."""
        if self._handed is None:
            super().start_over()
        elif not self._is_settled:
            self._withdraw("it is made again")
            self._end(RootsNeededError())

    def _served(self) -> None:
        if self._handed is not None:
            self.route.resolved.child.answers.replace(self._handed.parked, self)
        super()._served()

    def _end(self, outcome: Payload | Exception | None, *, is_answered: bool = False) -> None:
        self._over()
        if self._handed is not None:
            preemption = self.route.resolved.child.answers.preemption
            preemption.ended(self._handed.parked, is_answered=is_answered)
            self.parking.end(self._handed, outcome)


class _Stop:
    """Cancels a call that was handed over."""

    def __init__(self, in_flight: AskableCall) -> None:
        self._in_flight = in_flight

    def cancel(self) -> None:
        self._in_flight.stop()
