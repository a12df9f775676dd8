"""Calls a modern child again and again, with what it asked for, until it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from hub.core.errors import ChildError
from hub.core.values import JsonObject
from hub.runtime.answers import Answers
from hub.runtime.greeting import input_required
from hub.runtime.parties import Asker
from hub.runtime.wire import Payload

MAX_INPUT_ROUNDS: Final = 8
"""How often a modern child may ask for input within one call."""


async def in_rounds(
    send: Callable[[JsonObject], Awaitable[Payload]], answers: Answers, asker: Asker
) -> Payload:
    """Return a modern child's result; `send` calls it with the fields that a round adds.

    Raises: ChildError if it asks too often; RpcError if an answer is refused, or `send` raises it;
        InputNeededError if the asker's client answers with a retry of its own.
    """
    more = await answers.resumed(asker)
    rounds, ends = 0, anyio.current_time() + answers.spec.timeout
    while rounds < MAX_INPUT_ROUNDS:
        result = await send(more)
        wanted = input_required(result)
        if wanted is None:
            asker.done()
            return result
        # Who asks for nothing only wants to be called again, for as long as a call may take.
        rounds += bool(wanted.get("inputRequests")) or anyio.current_time() > ends
        more = await answers.inputs(wanted, asker)
    raise ChildError(
        f"server {answers.spec.name!r} asked for input {MAX_INPUT_ROUNDS} times within one call"
    )
