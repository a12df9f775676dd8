"""Answers a plain call by its own HTTP response, without a task unless it takes its time."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a future that a callback settles
from collections.abc import Callable
from typing import TypeAlias

import anyio
from starlette.types import Receive

from hub.edge.exchange import Exchange, until_disconnected
from hub.runtime.express import Passage
from hub.runtime.waiting import Answer
from hub.runtime.wire import Failure, Request, Response

PATIENCE = 0.05
"""Seconds after which a call is watched: whether its client is still there, and kept waiting."""


class Detour:
    """Stands for an answer that has to be found the general way."""


_DETOUR = Detour()
Outcome: TypeAlias = Answer | Detour


class CallReply:
    """Where the answer to one call comes in; one coroutine waits for it."""

    def __init__(self, outlet: Exchange) -> None:
        self.outlet = outlet
        self._loop = asyncio.get_running_loop()
        self._came = self._loop.create_future()
        self._outcome: Outcome = None
        self._is_there = False

    def give(self, answer: Answer) -> bool:
        self._settle(answer)
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self._settle(answer)

    def detour(self, request: Request) -> None:
        self._settle(_DETOUR)

    def _settle(self, outcome: Outcome) -> None:
        if not self._is_there:
            self._outcome, self._is_there = outcome, True
            self._wake()

    def _wake(self) -> None:
        if not self._came.done():
            self._came.set_result(None)

    async def is_there_soon(self) -> bool:
        """Wait for a moment, and return whether the outcome is there."""
        timer = self._loop.call_later(PATIENCE, self._wake)
        try:
            await self._came
        finally:
            timer.cancel()
        return self._is_there

    async def outcome(self) -> Outcome:
        """Return what came of the call, when it is there."""
        if not self._is_there:
            self._came = self._loop.create_future()
            await self._came
        return self._outcome


async def answer_plainly(
    passing: Callable[[CallReply], Passage | None],
    receive: Receive,
    exchange: Exchange,
    status_of: Callable[[Failure], int] = lambda _: 200,
) -> bool:
    """Answer a request if it is a plain call; return whether it was, to its end.

    `passing` begins the call, whose answer the reply gets.
    """
    reply = CallReply(exchange)
    passage = passing(reply)
    if passage is None:
        return False
    try:
        if not await reply.is_there_soon():
            await _until_answered(passage, reply, receive, exchange)
        outcome = await reply.outcome()
    finally:
        passage.cancel()
    if isinstance(outcome, Detour):
        return False
    status = status_of(outcome) if isinstance(outcome, Failure) else 200
    await exchange.finish(outcome, status=status)
    return True


async def _until_answered(
    passage: Passage, reply: CallReply, receive: Receive, exchange: Exchange
) -> None:
    """Wait for the outcome; the call is cancelled when its client is lost."""

    async def watch() -> None:
        await until_disconnected(receive)
        await exchange.lost()
        passage.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(exchange.tend)
        await reply.outcome()
        tasks.cancel_scope.cancel()
