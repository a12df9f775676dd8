"""One HTTP response of a remote child, whose body may still be arriving.

Error texts may be shown to clients: they contain no header, and no secret part of a URL.
"""

from __future__ import annotations

import errno
import re
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Final
from weakref import WeakSet

import anyio
import httpx2

from hub.errors import leaves
from hub.jsonrpc import messages
from hub.jsonrpc.peer_conduct import LoopShare
from hub.protocol.sse_parser import EventParser, ServerSentEvent
from hub.specs import shown_url

DRAIN = 1.0
"""Seconds that a response may take to end when the rest of it is not needed."""
_SMALL = 64 * 1024
BREAKS: Final = (httpx2.RequestError, OSError)
"""Errors of a broken exchange; the HTTP client does not wrap some errors of TLS."""
_DEPTH = 10
"""How many causes of an error are looked at."""
_FORBIDDEN = 403
_SCOPE = re.compile(r'\bscope="([!#-\[\]-~ ]{1,512})"')
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

INFLATED = 256 * 1024
"""Bytes that are decompressed at a time."""
_GZIP, _NOT_COMPRESSED = frozenset({"gzip", "x-gzip"}), frozenset({"", "identity"})
_WBITS, _SHOWN = 16 + zlib.MAX_WBITS, 40

MAX_UNFINISHED, LIGHT = 128 * 1024 * 1024, 1024 * 1024
"""Bytes of one child's unfinished messages above which those over `LIGHT` fail that grow further:
each of its calls in flight may bring a large one, and none of them need ever end."""

_ASKED: Mapping[int, str] = {
    401: "check its headers",
    403: "check its headers",
    404: "check its url",
    405: "check its url and transport",
}
"""The part of the config that may be wrong, by response status."""


class ExchangeError(Exception):
    """An HTTP exchange failed; the text says why, as a sentence about the child."""


class UnfinishedMessages:
    """The bytes of one child's messages that have not arrived in full, over all its responses."""

    def __init__(self, most: int = MAX_UNFINISHED) -> None:
        self.bodies = 0
        self._most = most
        self._parsers: WeakSet[EventParser] = WeakSet()

    def add(self, parser: EventParser) -> None:
        """Count what `parser` keeps, as long as somebody uses it."""
        self._parsers.add(parser)

    def check(self, size: int) -> None:
        """Check that a message of `size` bytes so far may grow further. Raises: ExchangeError."""
        if size > LIGHT and self.bodies + sum(p.unfinished for p in self._parsers) > self._most:
            raise ExchangeError(f"its unfinished messages have more than {self._most} bytes")


class CountedParser(EventParser):
    """Parses the events up to one response, whose size counts with those of others."""

    def __init__(self, unfinished: UnfinishedMessages) -> None:
        super().__init__(messages.MAX_MESSAGE_BYTES)
        self._counted_in = unfinished
        unfinished.add(self)

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that `chunk` completes. Raises: ExchangeError if too much has come."""
        events = super().feed(chunk)
        self._counted_in.check(self.unfinished)
        return events


class Exchange:
    """An HTTP response whose body may still be arriving."""

    def __init__(
        self,
        response: httpx2.Response,
        url: httpx2.URL,
        method: str,
        *,
        pace: LoopShare,
        unfinished: UnfinishedMessages,
    ) -> None:
        self._response = response
        self._unfinished = unfinished
        self._method = method
        self._pace = pace
        self.url = url
        self.status = response.status_code
        self.remedy: str | None = None
        """What somebody does to log in with further scopes; None without a login."""

    @property
    def kind(self) -> str:
        """The media type of the body, without parameters."""
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def redirect(self) -> httpx2.URL | None:
        """The target URL of a redirect; None if the response is none."""
        location = self._response.headers.get("location")
        if self.status not in _REDIRECTS or location is None:
            return None
        try:
            return self.url.join(location)
        except (httpx2.InvalidURL, ValueError):
            return None

    def header(self, name: str) -> str | None:
        """Return the value of a header."""
        return self._response.headers.get(name)

    @property
    def missing_scope(self) -> str | None:
        """The scope that the token would need (RFC 6750, section 3.1); None if that is not it."""
        challenge = self._response.headers.get("www-authenticate") or ""
        if self.status != _FORBIDDEN or 'error="insufficient_scope"' not in challenge:
            return None
        found = _SCOPE.search(challenge)
        return "" if found is None else found[1]

    @property
    def refusal(self) -> str:
        """The reason why the response is a refusal, from its status: a sentence about the child."""
        elsewhere = self.redirect
        if elsewhere is not None:
            return f"it redirects to {shown_url(str(elsewhere))}, which is not followed"
        # A server may refuse every other method.
        asked = _ASKED.get(self.status) if self._method == "POST" else None
        if self.missing_scope is not None:
            asked = f"its token lacks the scope {self.missing_scope!r}"
            asked += f": {self.remedy}" if self.remedy is not None else ""
        return f"it answered with HTTP status {self.status}" + (f" ({asked})" if asked else "")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives, decompressed. Raises: ExchangeError if it breaks off."""
        stream, coding = self._response.stream, self.header("content-encoding") or ""
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError(f"not an asynchronous stream: {stream!r}")
        try:
            if coding.lower() in _NOT_COMPRESSED:
                async for chunk in stream:
                    yield chunk
                return
            if coding.lower() not in _GZIP:
                shown = coding[:_SHOWN]
                raise ExchangeError(
                    f"its content encoding, {shown!r}, is not one that was asked for"
                )
            async with aclosing(self._decompressed(stream)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except zlib.error:
            raise ExchangeError(
                f"its body is not what its content encoding, {coding!r}, says"
            ) from None
        except BREAKS as exc:
            raise ExchangeError(f"the connection broke ({named_error(exc)})") from exc

    async def _decompressed(self, stream: httpx2.AsyncByteStream) -> AsyncGenerator[bytes]:
        """Yield a body in gzip, at the child's pace: few bytes can bring very many.

        It may have several members (RFC 1952, section 2.2), such as one for each event. Raises
        zlib.error if it is no gzip.
        """
        pace, member = self._pace, zlib.decompressobj(_WBITS)
        async for packed in stream:
            rest, chunk = packed, b""
            while rest or len(chunk) == INFLATED:
                began = pace.clock()
                if member.eof:
                    member = zlib.decompressobj(_WBITS)
                chunk = member.decompress(rest, INFLATED)
                rest = member.unconsumed_tail or member.unused_data
                pace.spend(pace.clock() - began)
                if chunk:
                    yield chunk
                pause = pace.rest()
                if pause is not None:
                    await anyio.sleep(pause)

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises: ExchangeError if it has more than `limit` bytes, the connection breaks, or too much
            arrives from the child at once.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    parts.append(chunk)
                    size += len(chunk)
                    self._unfinished.bodies += len(chunk)
                    if size > limit:
                        raise ExchangeError(f"it has more than {limit} bytes")
                    self._unfinished.check(size)
        finally:
            self._unfinished.bodies -= size
        return b"".join(parts)

    async def finish(self, within: float = DRAIN) -> None:
        """Close the response; read a small rest of the body first, to reuse the connection.

        The rest is waited for `within` seconds.
        """
        try:
            with anyio.move_on_after(within), suppress(ExchangeError):
                await self.body(_SMALL)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the response; the rest of the body is dropped."""
        with suppress(*BREAKS):
            await self._response.aclose()


def named_error(exc: Exception) -> str:
    """Return the text of an error: the system's, which the libraries above it leave out."""
    cause: BaseException | None = exc
    for _ in range(_DEPTH):
        if cause is None:
            break
        cause = next(leaves(cause))
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror + (" (`ulimit -n`)" if cause.errno == errno.EMFILE else "")
        cause = cause.__cause__ or cause.__context__
    return str(exc) or type(exc).__name__
