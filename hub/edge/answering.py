"""Reads a POST's body, and answers the request in it by its own response."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from starlette.types import Receive

from hub.core.protocol import INTERNAL_ERROR
from hub.edge.post_response import PostResponse, until_disconnected
from hub.edge.server import Front
from hub.runtime import wire
from hub.runtime.peer import GoneError
from hub.runtime.strict_json import WireError
from hub.runtime.wire import Failure, Request


async def read_body(receive: Receive) -> bytes | None:
    """Return a request's body; None if it is too large.

    Raises: GoneError if the client went before it was complete.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError("the client went before its message was complete")
        part = message.get("body", b"")
        size += len(part)
        if size > wire.MAX_MESSAGE_BYTES:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def last_word(request: Request) -> Failure:
    """Return what a request is answered with that the hub gives up because it ends."""
    said = "the hub is ending, and gave the request up: it may have taken effect or not"
    return Failure(request.id, {"code": INTERNAL_ERROR, "message": said})


async def answer_in(
    front: Front,
    request: Request,
    receive: Receive,
    response: PostResponse,
    status_of: Callable[[Failure], int] = lambda _: 200,
) -> None:
    """Answer one request in its own response; it is cancelled when its client is lost.

    With the hub it ends with an error; a request that its client takes back has no answer.
    """
    try:
        asked = front.peer.accept(request, response)
    except WireError as exc:
        # One more than may be under way is no fault in the request.
        status = 503 if exc.code == INTERNAL_ERROR else 400
        await response.finish(wire.failure_of(exc), status=status)
        return

    async def watch() -> None:
        await until_disconnected(receive)
        await response.lost()
        asked.scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(response.tend)
        answer = await front.peer.answer(asked)
        if answer is None and front.is_ending:
            answer = last_word(request)
        await response.finish(
            answer, status=status_of(answer) if isinstance(answer, Failure) else 200
        )
        tasks.cancel_scope.cancel()
