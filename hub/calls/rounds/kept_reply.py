"""The reply sink of a call that no request waits for: it keeps the answer for the retry."""

from __future__ import annotations

from msgspec.structs import replace

from hub.calls.in_flight import ReplySink
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Request, Response
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.requests import Answer, Cancellable


class KeptReply:
    """The reply sink of a detached call: it keeps the answer; `is_over` once there is one."""

    has_room = True

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.is_over = False
        self._answer: Answer = None
        self._is_stale = False

    def give(self, answer: Answer) -> bool:
        self._answer, self.is_over = answer, True
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self.give(answer)

    def resolve_again(self, request: Request) -> None:
        self._is_stale = self.is_over = True

    async def pass_on(self, reply: ReplySink, request: Request) -> None:
        """Hand the answer over to the sink of a request."""
        if self._is_stale:
            reply.resolve_again(request)
        elif self._answer is None:
            reply.give(None)
        else:
            await reply.deliver(replace(self._answer, id=request.id))

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Do nothing: a detached call cannot be cancelled by an id."""

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Do nothing."""
