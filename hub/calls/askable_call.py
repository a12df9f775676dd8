"""A plain call of a modern client that can be asked: by express until its child has a question.

Such a client is asked by its request's result. So the call is handed over with the first question:
its request is answered the general way from then on, where calls are parked.
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
    """One call on its way; once it is handed over, `parking` is told how it ends.

    `known_as` is who would answer; the owner of the way is whoever called the tool before.
    """

    parking: Parking
    known_as: SessionKey
    _handed: HandedOver | None = None

    # What the child sees

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
        """Have the client asked by the result of its request.

        Raises: RpcError if the call is over, and as `ParkedCall.ask`.
        """
        require_taken(self.owner.client, method, params)
        if self._handed is None and self._is_settled:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        handed = self._handed or self._hand_over()
        return await handed.parked.ask(method, params, request_owner)

    def _hand_over(self) -> HandedOver:
        """Let the call go on where its request is answered the general way."""
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

    # How it ends

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
        """Have the client asked first for what it is to call again with."""
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
        """Give the call up for its client, unless another request has taken it over."""
        if self._handed is None:
            super().cancel(reason)
        elif self.parking.take_back(self._handed):
            self._handed.parked.give_up(reason)

    def stop(self) -> None:
        """Give the call up that was handed over."""
        if self._handed is not None and not self._is_settled:
            self._withdraw(self._handed.parked.reason)
            self._note("cancelled")
            self._end(None)

    def start_over(self) -> None:
        """Give the call up at its child, which needs roots; its client makes it again with them."""
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
    """Gives a call up that was handed over."""

    def __init__(self, passage: AskableCall) -> None:
        self._passage = passage

    def cancel(self) -> None:
        self._passage.stop()
