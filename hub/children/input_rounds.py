"""Calls a modern child again and again, with what it asked for, until it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from hub.children.callbacks import ChildCallbacks
from hub.children.clients import Caller
from hub.children.handshake import HubIdentity, ServerHandshake, input_required, with_envelope
from hub.errors import ChildError
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import INVALID_PARAMS
from hub.values import JsonObject

MAX_INPUT_ROUNDS: Final = 8
"""How often a modern child may ask for input within one call."""


def worded(
    params: JsonObject, handshake: ServerHandshake, hub: HubIdentity, asker: Caller
) -> JsonObject:
    """Return a call's params as a child of its era wants them, on behalf of a client."""
    if handshake.era == "legacy":
        return params
    return with_envelope(params, handshake, hub.on_behalf_of(asker.asks), asker.log_level)


async def in_rounds(
    send: Callable[[JsonObject], Awaitable[Payload]],
    answers: ChildCallbacks,
    asker: Caller,
    first: Payload | None = None,
) -> Payload:
    """Return a modern child's result; `send` calls it with the fields that a round adds.

    `first` is what it answered if it was called before.

    Raises: ChildError if it asks too often, or for too long in vain; RpcError if an answer is
        refused, or `send` raises it; InputNeededError if the asker's client answers with a retry of
        its own.
    """
    result = first
    if result is None:
        result = await _resume(send, await answers.resumed(asker), asker)
    rounds, ends = 0, anyio.current_time() + answers.spec.timeout
    while True:
        wanted = input_required(result)
        if wanted is None:
            asker.done()
            return result
        # Who asks for nothing only wants to be called again, for as long as a call may take.
        rounds += bool(wanted.get("inputRequests")) or anyio.current_time() > ends
        more = await _inputs(wanted, answers, asker)
        if rounds == MAX_INPUT_ROUNDS:
            raise ChildError(
                f"server {answers.spec.name!r} asked for input {rounds} times within one call"
            )
        result = await send(more)


async def _inputs(wanted: JsonObject, answers: ChildCallbacks, asker: Caller) -> JsonObject:
    """Return what the child asks for. Meanwhile the call holds a slot: it may not for ever."""
    spec = answers.spec
    try:
        with anyio.fail_after(spec.timeout if wanted.get("inputRequests") else None):
            return await answers.inputs(wanted, asker)
    except TimeoutError:
        raise ChildError(
            f"server {spec.name!r} asked for input that the client did not give "
            f"within {spec.timeout:g} s"
        ) from None


async def _resume(
    send: Callable[[JsonObject], Awaitable[Payload]], more: JsonObject, asker: Caller
) -> Payload:
    """Send the first request of a call, or of a further round of it.

    With roots that it did not know before, a server may be another process, which need not know the
    state of the first: then the call is made anew.
    """
    child = asker.retry.state.child
    try:
        return await send(more)
    except RpcError as exc:
        if child is None or not child.wants_roots or exc.code != INVALID_PARAMS:
            raise
    return await send({})
