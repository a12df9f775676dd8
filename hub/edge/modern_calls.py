"""Answers plain calls of the modern era over HTTP, without a conversation for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from anyio.abc import TaskGroup
from starlette.types import Receive

from hub.edge.envelope import status_of
from hub.edge.exchange import Exchange
from hub.edge.plain_calls import CallReply, answer_plainly
from hub.runtime.express import Express, Passage, Way
from hub.runtime.strict_json import RequestId
from hub.runtime.waiting import Underway
from hub.runtime.wire import Request

FindWay: TypeAlias = Callable[[str, Request], Way | None]
"""Returns how a principal's call goes if it can go by express."""


class _Underway:
    """The calls under way: of clients that know nothing of each other, so ids say nothing."""

    def __init__(self) -> None:
        self._calls: set[Underway] = set()

    def takes(self, id_: RequestId) -> bool:
        return True

    def enter(self, id_: RequestId, underway: Underway) -> None:
        self._calls.add(underway)

    def leave(self, id_: RequestId, underway: Underway) -> None:
        self._calls.discard(underway)

    def cancel(self) -> None:
        for call in list(self._calls):
            call.cancel()


class ModernCalls:
    """Answers those calls that a lane is open for."""

    def __init__(self, find: FindWay, principal: str) -> None:
        self._find = find
        self._principal = principal
        self._underway = _Underway()

    async def answer(
        self, request: Request, tasks: TaskGroup, receive: Receive, exchange: Exchange
    ) -> bool:
        """Answer a request if it is such a call; return whether it was, to its end."""
        if request.method != "tools/call":
            return False
        way = self._find(self._principal, request)
        if way is None:
            return False
        express = Express(self._underway, tasks)

        def passing(reply: CallReply) -> Passage | None:
            return express.take(request, way, reply)

        return await answer_plainly(passing, receive, exchange, status_of)

    def end(self) -> None:
        """Give up the calls under way."""
        self._underway.cancel()
