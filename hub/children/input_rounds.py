"""Multi-round calls to a modern child: repeat a call with the requested input until it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from hub.children.callbacks import ChildCallbacks
from hub.children.clients import Caller
from hub.children.handshake import HubIdentity, ServerHandshake, input_required, with_envelope
from hub.errors import ChildError
from hub.jsonrpc.messages import Payload
from hub.values import JsonObject

MAX_INPUT_ROUNDS: Final = 8
"""The number of times that a modern child may ask for input within one call."""


def worded(
    params: JsonObject, handshake: ServerHandshake, hub: HubIdentity, caller: Caller
) -> JsonObject:
    """Return a call's params in the form of the child's era, on behalf of the client `caller`."""
    if handshake.era == "legacy":
        return params
    return with_envelope(params, handshake, hub.on_behalf_of(caller.asks), caller.log_level)


async def in_rounds(
    send: Callable[[JsonObject], Awaitable[Payload]],
    answers: ChildCallbacks,
    caller: Caller,
    first: Payload,
) -> Payload:
    """Return a modern child's result after its `first` one, which may ask for input.

    `send` sends the call again, with the fields that a round adds.

    Raises: ChildError if the child asks too often, or its input takes too long; RpcError if a
        request for input is refused, or from `send`; InputNeededError if the client must be asked
        by the result of its own call.
    """
    result = first
    rounds, ends = 0, anyio.current_time() + answers.spec.timeout
    while True:
        wanted = input_required(result)
        if wanted is None:
            caller.done()
            return result
        # A result without `inputRequests` only asks for a repetition of the call. It counts as a
        # round when the call's time limit has passed.
        rounds += bool(wanted.get("inputRequests")) or anyio.current_time() > ends
        more = await _inputs(wanted, answers, caller)
        if rounds == MAX_INPUT_ROUNDS:
            raise ChildError(
                f"server {answers.spec.name!r} asked for input {rounds} times within one call"
            )
        result = await send(more)


async def _inputs(wanted: JsonObject, answers: ChildCallbacks, caller: Caller) -> JsonObject:
    """Return the input that the child asks for; the wait is limited, as the call holds a slot."""
    spec = answers.spec
    try:
        with anyio.fail_after(spec.timeout if wanted.get("inputRequests") else None):
            return await answers.inputs(wanted, caller)
    except TimeoutError:
        raise ChildError(
            f"server {spec.name!r} asked for input that the client did not give "
            f"within {spec.timeout:g} s"
        ) from None
