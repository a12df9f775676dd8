"""A fast-path call at a modern child: answered at once, or in rounds, which need a task.

A modern child asks by an `input_required` result, and is called again with the answers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup

from hub.calls.routes import ResolvedRoute
from hub.children.clients import Caller, InputNeededError, RootsNeededError
from hub.children.handshake import input_required, without_server_info
from hub.children.input_rounds import in_rounds, worded
from hub.errors import ChildError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.outgoing import Answer, Progress
from hub.jsonrpc.peer import GoneError, LostError, RpcError
from hub.protocol.constants import INTERNAL_ERROR
from hub.values import Call, JsonObject

RoundsOutcome: TypeAlias = Payload | ChildError | RpcError | InputNeededError
"""The outcome of a call: a result, or the error in its place."""


class RoundsCaller(Caller, Protocol):
    """The caller of a call at a modern child, which also takes the outcome."""

    @property
    def request_owner(self) -> Caller:
        """The `Caller` that is asked now if the child asks within the call."""
        ...

    def ended(self, outcome: RoundsOutcome) -> None:
        """Take the outcome of the call; called once, and never raises."""
        ...

    def expire(self) -> None:
        """Fail the call: an answer takes too long."""
        ...


class ChildRounds:
    """Sends one call to a modern child and takes its answers; further rounds run in `tasks`."""

    def __init__(
        self, resolved: ResolvedRoute, call: Call, poster: RoundsCaller, tasks: TaskGroup
    ) -> None:
        self._child = resolved.child
        self._peer = resolved.peer
        self._method = call.method
        self._params = worded(call.params, resolved.ready.handshake, resolved.child.hub, poster)
        self._poster = poster
        self._tasks = tasks
        self._scope = anyio.CancelScope()
        self._going_on: anyio.Event | None = None

    def post(self) -> Request | None:
        """Send the call's first request; return None if it cannot be sent without waiting."""
        return self._peer.post(self._method, self._params, self)

    @property
    def progress(self) -> Progress | None:
        """The function that takes progress reports; None if the client wants none."""
        return self._poster.progress

    @property
    def request_owner(self) -> Caller:
        """The `Caller` for the child's requests within this call."""
        return self._poster.request_owner

    def settle(self, answer: Answer) -> None:
        """Take the child's first answer: end the call, or start a task for further rounds."""
        outcome: RoundsOutcome
        try:
            result = self._peer.result_of(answer)
            if input_required(result) is not None:
                self._child.deadlines.end(self._poster)  # each round has its own timeout
                self._going_on = anyio.Event()
                self._tasks.start_soon(self._go_on, result, self._going_on)
                return
            outcome = without_server_info(result)
        except (LostError, GoneError) as exc:
            outcome = self._child.without_answer(exc)
        except RpcError as exc:
            outcome = exc
        except WireError as exc:
            outcome = RpcError(exc.code, str(exc))
        self._poster.ended(outcome)

    async def _go_on(self, first: Payload, over: anyio.Event) -> None:
        try:
            if self._scope.cancel_called:
                return  # cancelled before this task has begun
            # With RootsNeededError the poster has given the call up already.
            with self._scope, suppress(RootsNeededError):
                outcome = await self._outcome(first)
                # Nobody waits for the outcome of a call that was given up meanwhile.
                if not self._scope.cancel_called:
                    self._poster.ended(outcome)
        finally:
            over.set()

    async def _outcome(self, first: Payload) -> RoundsOutcome:
        async def send(more: JsonObject) -> Payload:
            params: JsonObject = {**self._params, **more}
            return await self._child.request(self._method, params, self._poster)

        try:
            result = await in_rounds(send, self._child.answers, self._poster, first)
            return without_server_info(result)
        except (ChildError, RpcError, InputNeededError) as exc:
            return exc
        except RootsNeededError:
            raise
        except WireError as exc:
            return RpcError(exc.code, str(exc))
        except Exception as exc:  # noqa: BLE001 - the task ends, and the poster gets the error
            return RpcError(INTERNAL_ERROR, str(exc))

    def cancel(self) -> None:
        """Stop the rounds: no further request to the child or to the client."""
        self._scope.cancel()

    @property
    def is_over(self) -> bool:
        """Whether no task for further rounds is running."""
        return self._going_on is None or self._going_on.is_set()

    async def over(self) -> None:
        """Return once `is_over` is true."""
        if self._going_on is not None:
            await self._going_on.wait()
