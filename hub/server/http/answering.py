"""Reads a POST's body, and answers the request in it by its own response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from starlette.types import Receive

from hub.jsonrpc import messages as wire
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Failure, Request
from hub.jsonrpc.peer import GoneError
from hub.protocol.constants import INTERNAL_ERROR
from hub.server.connection import Front
from hub.server.http.access import Refusal
from hub.server.http.bounds.bodies import RETRY_AFTER, Load
from hub.server.http.responses import PostResponse, until_disconnected

ENDING: Final = "the hub is ending"
"""Why the requests under way are given up when it does."""
TOO_LARGE: Final = Refusal(413, f"A message may have {wire.MAX_MESSAGE_BYTES} bytes at most")
NO_ROOM: Final = Refusal(
    503,
    "The messages under way take all the memory that there is for them; try again later",
    {"retry-after": str(RETRY_AFTER)},
)


async def read_body(receive: Receive, load: Load) -> bytes | Refusal:
    """Return a request's body, which `load` counts; a refusal if it is too large, or all are.

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
            return TOO_LARGE
        if not load.add(len(part)):
            return NO_ROOM
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def last_word(request: Request, why: str) -> Failure:
    """Return what a request is answered with that the hub gives up."""
    said = f"{why}, and gave the request up: it may have taken effect or not"
    return Failure(request.id, {"code": INTERNAL_ERROR, "message": said})


async def answer_in(
    front: Front,
    request: Request,
    receive: Receive,
    response: PostResponse,
    status_of: Callable[[Failure], int] = lambda _: 200,
) -> None:
    """Answer one request in its own response; it is cancelled when its client is lost.

    If the hub ends the conversation, it ends with an error; one that its client takes back has no
    answer.
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
        if answer is None and front.given_up is not None:
            answer = last_word(request, front.given_up)
        await response.finish(
            answer, status=status_of(answer) if isinstance(answer, Failure) else 200
        )
        tasks.cancel_scope.cancel()
