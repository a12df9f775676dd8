"""What a child asks of its own accord: it hears what is reported on the way to the answer.

Over streamable HTTP it says on whose behalf it asks, by the stream of the request that it serves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from anyio.abc import TaskGroup

from hub.jsonrpc import messages
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.outgoing import Behalf, Progress, RequestWithin, token_in
from hub.jsonrpc.peer import Asked, GoneError, RpcError
from hub.jsonrpc.send_queue import Mailbox
from hub.jsonrpc.weight import weight_of
from hub.protocol.constants import INTERNAL_ERROR
from hub.values import JsonObject


class Question:
    """One question; what is reported waits for the child in `tasks`, and holds up no client."""

    def __init__(self, asked: Asked, tasks: TaskGroup) -> None:
        self._asked = asked
        self._token = token_in(asked.request.params)
        self._mailbox = Mailbox(tasks)

    @property
    def reason(self) -> str:
        """What is told of it when the child takes it back."""
        return self._asked.reason

    def served(self) -> Behalf | None:
        """Return on whose behalf the request is made that the child serves; None if it is not said.

        Raises: RpcError if that request is over.
        """
        request = self._asked.request
        if not isinstance(request, RequestWithin):
            return None
        waiter = self._asked.waiters.waiting(request.within)
        if waiter is None:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        return waiter.behalf

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the child gave no token."""
        return None if self._token is None else self._report

    async def _report(self, params: Payload) -> None:
        own: JsonObject = {**messages.as_object(params), "progressToken": self._token}
        report = Notification("notifications/progress", own)
        self._mailbox.put(lambda: self._send(report), weight_of(params))

    async def _send(self, report: Notification) -> None:
        with suppress(GoneError):
            await self._asked.outlet.send(report)

    async def flush(self) -> None:
        """Return once all that was reported is on its way to the child."""
        await self._mailbox.flush()


@asynccontextmanager
async def questioned(asked: Asked, tasks: TaskGroup) -> AsyncGenerator[Question]:
    """Keep a question while it is answered; what is reported goes out before the answer."""
    question = Question(asked, tasks)
    try:
        yield question
    finally:
        await question.flush()
