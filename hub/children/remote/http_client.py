"""HTTP requests to one remote child and to no other origin: headers, redirects, cookies, bodies.

The operator's headers go to the configured origin alone. Error texts may be shown to clients: they
contain no header, and no secret part of a URL.
"""

from __future__ import annotations

import base64
import errno
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from urllib.parse import unquote
from weakref import WeakSet

import anyio
import httpx2

from hub.children.remote.cookies import MAX_BYTES, MAX_COOKIES, CookieStore
from hub.errors import ChildError, leaves
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.loop_share import LoopShare
from hub.jsonrpc.rated_log import ChildLog
from hub.logins.access_tokens import AccessTokens
from hub.protocol.http_headers import is_header_name, is_header_value
from hub.protocol.sse_parser import EventParser
from hub.specs import RemoteTarget, shown_url

CONNECT_TIMEOUT = 30.0
"""Seconds that connecting may take, or one pause while a message is written."""
MAX_REDIRECTS = 5
PIECE = 256 * 1024
"""Bytes of a message that are written at a time; the time limit applies to each piece."""
DRAIN = 1.0
"""Seconds that a response may take to end when the rest of it is not needed."""
_SMALL = 64 * 1024
_DEPTH = 10
"""How many causes of an error are looked at."""

_UNAUTHORIZED, _FORBIDDEN, _MOVED_FOR_GOOD = 401, 403, 308
_SCOPE = re.compile(r'\bscope="([!#-\[\]-~ ]{1,512})"')
_KEEPING_METHOD = frozenset({307, _MOVED_FOR_GOOD})
_REDIRECTS = frozenset({301, 302, 303}) | _KEEPING_METHOD

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

_BREAKS = (httpx2.RequestError, OSError)
"""Errors of a broken exchange; the HTTP client does not wrap some errors of TLS."""

Headers = Mapping[bytes, bytes]


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
        """Check that a message of which there are `size` bytes may grow further.

        Raises: ExchangeError.
        """
        if size > LIGHT and self.bodies + sum(p.unfinished for p in self._parsers) > self._most:
            raise ExchangeError(f"its unfinished messages have more than {self._most} bytes")


class Endpoint:
    """The URL of a remote child, and the headers and cookies of each request to it.

    With `tokens` each request has one of them; where one is refused, a newer one is tried once.
    `pace` limits the child's share of the loop. `log` is told once that cookies were dropped.
    """

    def __init__(
        self,
        target: RemoteTarget,
        transport: httpx2.AsyncBaseTransport,
        tokens: AccessTokens | None = None,
        pace: LoopShare | None = None,
        log: ChildLog | None = None,
    ) -> None:
        """Check the operator's URL and headers.

        Raises: ChildError if they cannot be sent.
        """
        self._transport = transport
        self.pace = pace or LoopShare()
        self.unfinished = UnfinishedMessages()
        self._cookies = CookieStore()
        self._log, self._has_told = log, False
        try:
            self.url = httpx2.URL(target.url)
        except httpx2.InvalidURL:
            raise ChildError("its url is not valid") from None
        if self.url.scheme not in {"http", "https"} or not self.url.host:
            raise ChildError("its url is not valid")
        self._own = _own_headers(self.url, target.headers)
        self._has_secrets = bool(target.secrets)
        self._tokens = tokens

    def check_login(self, exchange: Exchange) -> None:
        """Check that a refusal is not of secrets that may have been replaced since they were read.

        Raises: GoneError, as the next connection reads them again.
        """
        if self._has_secrets and exchange.status == _UNAUTHORIZED:
            raise GoneError(f"{exchange.refusal}, whose secrets are read again at its next start")

    def move(self, beside: Exchange, reference: str) -> None:
        """Send later requests to `reference`, an address named in the response `beside`.

        Raises: ChildError if it is not at the origin of that response.
        """
        try:
            url = beside.url.join(reference)
        except (httpx2.InvalidURL, ValueError):
            raise ChildError("its `endpoint` event has no valid URL") from None
        if not _is_same_origin(beside.url, url) or url.userinfo not in {b"", beside.url.userinfo}:
            where = shown_url(str(url))
            raise ChildError(
                f"its `endpoint` event names another server, {where}, which is not followed"
            )
        self.url = url

    async def open(
        self, method: str, headers: Headers, body: bytes = b"", *, patience: float | None = None
    ) -> Exchange:
        """Send a request; return its response once that begins. The caller must close it.

        The response must begin within `patience` seconds; None means no limit. A redirect is
        followed if it stays at the origin and keeps the method.

        Raises: ExchangeError; GoneError if somebody has to log in at the server.
        """
        if self._tokens is None:
            return await self._followed(method, headers, body, patience)
        try:
            token = await self._tokens.current()
            exchange = await self._followed(method, _with(headers, token), body, patience)
            if exchange.status != _UNAUTHORIZED:
                if exchange.missing_scope is not None:
                    await self._note_lack(self._tokens, exchange, exchange.missing_scope)
                return exchange
            await exchange.finish()
            newer = await self._tokens.after(token)
        except ChildError as exc:
            raise GoneError(str(exc)) from None
        if newer is not None:
            exchange = await self._followed(method, _with(headers, newer), body, patience)
            if exchange.status != _UNAUTHORIZED:
                return exchange
            await exchange.close()
        raise GoneError(f"it refuses a new token of its login: {self._tokens.remedy}")

    async def _note_lack(self, tokens: AccessTokens, exchange: Exchange, scope: str) -> None:
        try:
            await tokens.lack(scope)
        except BaseException:  # cancelled, too
            await exchange.close()
            raise

    async def _followed(
        self, method: str, headers: Headers, body: bytes, patience: float | None
    ) -> Exchange:
        url = self.url
        for _ in range(MAX_REDIRECTS):
            exchange = await self._send(method, url, headers, body, patience)
            following = exchange.redirect
            if following is None or not _may_follow(method, exchange.status, url, following):
                return exchange
            await exchange.finish()
            url = following
            if exchange.status == _MOVED_FOR_GOOD:
                self.url = following
        raise ExchangeError(f"it redirects more than {MAX_REDIRECTS} times")

    async def _send(
        self, method: str, url: httpx2.URL, headers: Headers, body: bytes, patience: float | None
    ) -> Exchange:
        fields = {**self._own, **headers}
        if method == "POST":
            fields[b"content-length"] = b"%d" % len(body)
        timeout = {"connect": CONNECT_TIMEOUT, "write": CONNECT_TIMEOUT, "read": patience}
        request = httpx2.Request(
            method,
            url,
            headers=list(fields.items()),
            stream=_Pieces(body),
            extensions={"timeout": timeout},
        )
        self._cookies.add_to(request)
        try:
            response = await self._transport.handle_async_request(request)
        except httpx2.LocalProtocolError:
            raise ExchangeError("its headers cannot be sent") from None  # its text has headers
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as exc:
            raise ExchangeError(f"it cannot be reached ({_named(exc)})") from exc
        except _BREAKS as exc:
            raise ExchangeError(f"the connection broke ({_named(exc)})") from exc
        if self._cookies.keep(response, request) and self._log and not self._has_told:
            self._has_told = True
            self._log.warning("cookies dropped", most=MAX_COOKIES, bytes=MAX_BYTES)
        return Exchange(response, url, method, pace=self.pace, unfinished=self.unfinished)


class Exchange:
    """An HTTP response whose body may still be arriving."""

    def __init__(
        self,
        response: httpx2.Response,
        url: httpx2.URL,
        method: str = "POST",
        *,
        pace: LoopShare,
        unfinished: UnfinishedMessages | None = None,
    ) -> None:
        self._response = response
        self._unfinished = unfinished or UnfinishedMessages()
        self._method = method
        self._pace = pace
        self.url = url
        self.status = response.status_code

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
        """The scope that the login would need (RFC 6750, section 3.1); None if that is not it."""
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
            asked = f"its login lacks the scope {self.missing_scope!r}: log in again"
        return f"it answered with HTTP status {self.status}" + (f" ({asked})" if asked else "")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives, decompressed.

        Raises: ExchangeError if the connection breaks before the end.
        """
        stream = self._response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError(f"not an asynchronous stream: {stream!r}")
        try:
            # A body without compression skips the layers of the client that could decompress it.
            if "content-encoding" not in self._response.headers:
                async for chunk in stream:
                    yield chunk
                return
            async with aclosing(self._decompressed(stream)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except _BREAKS as exc:
            raise ExchangeError(f"the connection broke ({_named(exc)})") from exc

    async def _decompressed(self, stream: httpx2.AsyncByteStream) -> AsyncGenerator[bytes]:
        """Yield a compressed body, at the child's pace: few bytes can bring very many."""
        pace = self._pace
        arriving = _Arriving(stream, pace.clock)
        self._response.stream = arriving
        began = 0.0
        async for chunk in self._response.aiter_bytes():
            pace.spend(pace.clock() - max(began, arriving.last_at))
            yield chunk
            rest = pace.rest()
            if rest is not None:
                await anyio.sleep(rest)
            began = pace.clock()

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
        with suppress(*_BREAKS):
            await self._response.aclose()


class _Arriving(httpx2.AsyncByteStream):
    """A body that knows when its last chunk arrived."""

    def __init__(self, stream: httpx2.AsyncByteStream, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self.last_at = 0.0

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for chunk in self._stream:
            self.last_at = self._clock()
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Pieces(httpx2.AsyncByteStream):
    """A request body, written in pieces; the write timeout is per piece, as lines may be slow."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        if len(self._body) <= PIECE:
            yield self._body
            return
        for start in range(0, len(self._body), PIECE):
            yield self._body[start : start + PIECE]


def _with(headers: Headers, token: str) -> Headers:
    return {**headers, b"authorization": f"Bearer {token}".encode("ascii", "replace")}


def _own_headers(url: httpx2.URL, configured: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return the headers of every request, with names in lower case.

    Raises: ChildError if a header contains something that is not allowed.
    """
    own = {b"host": url.netloc, b"accept-encoding": b"gzip, deflate", b"user-agent": b"roots-hub"}
    if url.userinfo:
        login = unquote(url.userinfo.decode("ascii"))
        own[b"authorization"] = b"Basic " + base64.b64encode(login.encode())
    for name, value in configured.items():
        if not (is_header_name(name) and is_header_value(value)):
            raise ChildError(f"its header {name!r} cannot be sent: something in it is not allowed")
        own[name.lower().encode()] = value.strip().encode()
    return own


def _is_same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _may_follow(method: str, status: int, url: httpx2.URL, to: httpx2.URL) -> bool:
    """Return whether a redirect keeps the method, the login and the origin (or only adds TLS)."""
    if method != "GET" and status not in _KEEPING_METHOD:
        return False
    if to.userinfo not in {b"", url.userinfo}:
        return False
    to_tls = (url.scheme, to.scheme) == ("http", "https") and (url.port, to.port) == (None, None)
    return _is_same_origin(url, to) or (to_tls and url.host == to.host)


def _named(exc: Exception) -> str:
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
