from __future__ import annotations

from collections.abc import Iterable

import pytest
from starlette.types import Message

from hub.edge.answering import read_body
from hub.runtime import wire


class Body:
    """The request body of an ASGI server, in pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)

    async def __call__(self) -> Message:
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}


async def test_a_body_is_read_to_its_last_piece() -> None:
    assert await read_body(Body([b"one ", b"", b"two"])) == b"one two"


async def test_a_body_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 5)
    assert await read_body(Body([b"123", b"456", b"789"])) is None


async def test_a_body_may_be_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 5)
    assert await read_body(Body([b"123", b"45"])) == b"12345"
