"""Resumes event streams: requests a stream again when it breaks off, from the last event id on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio
from msgspec import Struct

from hub.children.remote.exchange import Exchange, ExchangeError
from hub.children.remote.http_client import STREAM_WANTED, Endpoint, Headers
from hub.children.remote.messages import events_in
from hub.protocol.sse_parser import EventParser, ServerSentEvent

PAUSE = 1.0
"""Seconds before a stream is requested again, if the child does not say."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 60.0


class Pauses(Struct, frozen=True):
    """The seconds before a broken stream is requested again: `usual` if the child does not say."""

    usual: float = PAUSE
    shortest: float = SHORTEST_PAUSE
    longest: float = LONGEST_PAUSE

    def after(self, retry: int | None, failures: int) -> float:
        """Return the next pause; `retry` is what the child said, in milliseconds."""
        asked = self.usual if retry is None else retry / 1000
        longer = asked if failures <= 1 else max(asked, self.usual) * 2 ** min(failures - 1, 10)
        return min(max(longer, self.shortest), self.longest)


_OK, _BAD_REQUEST, _NOT_FOUND, _FAULTS = 200, 400, 404, 500
SESSION_ENDED = "its session has ended"
_PASSING = frozenset({408, 409, 425, 429})
"""Statuses of temporary refusals."""


class SessionEndedError(ExchangeError):
    """The child no longer knows the session."""


async def resumed(
    endpoint: Endpoint,
    headers: Callable[[], Headers],
    parser: EventParser,
    pauses: Pauses,
    *,
    attempts: int | None,
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the events of one stream after the other, as long as the child sends any.

    It ends after `attempts` streams in a row without a byte; None: never, with growing pauses.
    Without `attempts` it is the stream of a session, whose end its refusal may tell.

    Raises: SessionEndedError; ExchangeError if the child does not offer such streams; GoneError if
        they bring too much that is no event.
    """
    failures, is_known = 0, False
    while True:
        parser.restart()
        failures += 1
        continued = {b"last-event-id": parser.last_id} if parser.last_id else {}
        asked = {**headers(), **STREAM_WANTED, **continued}
        has_session = b"mcp-session-id" in asked
        exchange = await _opened(endpoint, asked)
        if exchange is not None:
            try:
                if _is_given(exchange, parser, has_session=has_session, is_known=is_known):
                    is_known = has_session and attempts is None
                    async with aclosing(_chunks(exchange)) as chunks:
                        async for chunk in chunks:
                            failures = 0
                            said = events_in(chunk, parser, endpoint.conduct)
                            async with aclosing(said) as events:
                                async for event in events:
                                    yield event
            finally:
                await exchange.close()
        if attempts is not None and failures >= attempts:
            return
        await anyio.sleep(pauses.after(parser.retry, failures))


async def _opened(endpoint: Endpoint, headers: Headers) -> Exchange | None:
    try:
        return await endpoint.open("GET", headers)
    except ExchangeError:
        return None


def _is_given(
    exchange: Exchange, parser: EventParser, *, has_session: bool, is_known: bool
) -> bool:
    """Return whether the stream begins; False if a later attempt may succeed.

    `is_known`: the child has known the session. Where it says 400 then, it has forgotten it, or
    does not know the last event, which is forgotten here.

    Raises: ExchangeError if no later attempt will succeed.
    """
    if exchange.status == _OK and exchange.kind == "text/event-stream":
        return True
    if exchange.status == _NOT_FOUND and has_session:
        raise SessionEndedError(SESSION_ENDED)
    if exchange.status == _BAD_REQUEST and is_known:
        if not parser.last_id:
            raise SessionEndedError(SESSION_ENDED)
        parser.last_id = b""
        return False
    if exchange.status == _OK:
        raise ExchangeError(f"it answered with content of type {exchange.kind!r}")
    if exchange.status in _PASSING or exchange.status >= _FAULTS:
        return False
    raise ExchangeError(exchange.refusal)


async def _chunks(exchange: Exchange) -> AsyncGenerator[bytes]:
    """Yield the body until it ends or breaks off; both are the same here."""
    try:
        async with aclosing(exchange.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
    except ExchangeError:
        return
