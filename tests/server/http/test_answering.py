from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Message

from hub.jsonrpc.messages import MAX_MESSAGE_BYTES
from hub.server.http.bounds.bodies import SMALL, BodyLimit
from hub.server.http.responses import NO_ROOM, TOO_LARGE, read_body


class Body:
    """The request body of an ASGI server, in pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)

    async def __call__(self) -> Message:
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}


async def test_a_body_is_read_to_its_last_piece() -> None:
    assert await read_body(Body([b"one ", b"", b"two"]), BodyLimit().load()) == b"one two"


HALF = b"x" * (MAX_MESSAGE_BYTES // 2)


async def test_a_body_that_is_too_large_is_not_kept() -> None:
    assert await read_body(Body([HALF, HALF, b"x", b"rest"]), BodyLimit().load()) is TOO_LARGE


async def test_a_body_may_be_as_large_as_the_limit() -> None:
    assert await read_body(Body([HALF, HALF]), BodyLimit().load()) == 2 * HALF


async def test_a_body_that_there_is_no_room_for_is_not_read_on() -> None:
    bodies = BodyLimit(most=4 * SMALL)
    first, second = bodies.load(), bodies.load()
    assert await read_body(Body([b"x" * 2 * SMALL]), first) == b"x" * 2 * SMALL
    assert await read_body(Body([b"x" * (SMALL + 1), b"more"]), second) is NO_ROOM
    assert await read_body(Body([b"x" * SMALL]), bodies.load()) == b"x" * SMALL
