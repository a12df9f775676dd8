"""HTTP requests to one remote child and to no other origin: headers, redirects, cookies.

The operator's headers go to the configured origin alone. Error texts may be shown to clients: they
contain no header, and no secret part of a URL.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping
from typing import Final
from urllib.parse import unquote

import httpx2

from hub.children.remote.exchange import (
    BREAKS,
    Exchange,
    ExchangeError,
    UnfinishedMessages,
    named_error,
)
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.logins.access_tokens import AccessTokens
from hub.protocol.http_headers import is_header_name, is_header_value
from hub.specs import RemoteTarget, shown_url
from hub.system.connecting import proxy_of

CONNECT_TIMEOUT = 30.0
"""Seconds that connecting may take, or one pause while a message is written."""
MAX_REDIRECTS = 5
PIECE = 256 * 1024
"""Bytes of a message that are written at a time; the time limit applies to each piece."""

MAX_COOKIES: Final = 50
"""Cookies that are kept: as many as a client must keep of one host (RFC 6265, section 6.1)."""
MAX_LINE: Final = 4 * 1024
"""Bytes of one cookie with its attributes; no client needs to keep a longer one (the same RFC)."""
MAX_BYTES: Final = 16 * 1024
"""Bytes of all kept cookies: they go into each request, and many servers refuse larger headers."""

STREAM_WANTED: Final = {b"accept": b"text/event-stream", b"cache-control": b"no-store"}
"""The headers of a request for a stream of events."""
_UNAUTHORIZED, _MOVED_FOR_GOOD = 401, 308
_KEEPING_METHOD = frozenset({307, _MOVED_FOR_GOOD})

Headers = Mapping[bytes, bytes]


class Endpoint:
    """The URL of a remote child, and the headers and cookies of each request to it.

    With `tokens` each request has one of them; where one is refused, a newer one is tried once.
    The log of `conduct` is told once that cookies were dropped.
    """

    def __init__(
        self,
        target: RemoteTarget,
        transport: httpx2.AsyncBaseTransport,
        conduct: PeerConduct,
        tokens: AccessTokens | None = None,
    ) -> None:
        """Check the operator's URL and headers. Raises: ChildError if they cannot be sent."""
        self._transport = transport
        self.conduct = conduct
        self.unfinished = UnfinishedMessages()
        self._cookies = CookieStore()
        self._has_told = False
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
                return await self._lack_noted(self._tokens, exchange)
            await exchange.finish()
            newer = await self._tokens.after(token)
            if newer is not None:
                exchange = await self._followed(method, _with(headers, newer), body, patience)
                if exchange.status != _UNAUTHORIZED:
                    return await self._lack_noted(self._tokens, exchange)
                await exchange.close()
        except ChildError as exc:
            raise GoneError(str(exc)) from None
        raise GoneError(f"it refuses a new token of its login: {self._tokens.remedy}")

    async def _lack_noted(self, tokens: AccessTokens, exchange: Exchange) -> Exchange:
        """Return an exchange; keep the scope that its server wants, and have it say the remedy."""
        if exchange.missing_scope is not None:
            exchange.remedy = tokens.remedy
            try:
                await tokens.lack(exchange.missing_scope)
            except BaseException:  # cancelled, too
                await exchange.close()
                raise
        return exchange

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
            proxy = proxy_of(url)
            by = f" through the proxy {shown_url(str(proxy.url))}" if proxy is not None else ""
            raise ExchangeError(f"it cannot be reached{by} ({named_error(exc)})") from exc
        except BREAKS as exc:
            raise ExchangeError(f"the connection broke ({named_error(exc)})") from exc
        if self._cookies.keep(response, request) and not self._has_told:
            self._has_told = True
            self.conduct.log.warning("cookies dropped", most=MAX_COOKIES, bytes=MAX_BYTES)
        pace, unfinished = self.conduct.pace, self.unfinished
        return Exchange(response, url, method, pace=pace, unfinished=unfinished)


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
    own = {b"host": url.netloc, b"accept-encoding": b"gzip", b"user-agent": b"roots-hub"}
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


class CookieStore:
    """Keeps the cookies that a child sets: load balancers keep a session at one node by them.

    What is beyond the limits is dropped. A new value replaces an old one; a new cookie never
    displaces an older one of its path.
    """

    def __init__(self) -> None:
        self._cookies = httpx2.Cookies()
        self._has_any = False

    def add_to(self, request: httpx2.Request) -> None:
        """Add the cookies that belong into a request to its headers."""
        if self._has_any:
            self._cookies.set_cookie_header(request)

    def keep(self, response: httpx2.Response, request: httpx2.Request) -> int:
        """Keep the cookies of a response; return how many were dropped."""
        if "set-cookie" not in response.headers:
            return 0
        lines = [one for one in response.headers.raw if one[0].lower() == b"set-cookie"]
        # The jar keeps each line's attributes, and parsing takes long: a flood does not get there.
        # Nor does what is too long, or what no request header may have.
        few = lines[:MAX_COOKIES]
        taken = [one for one in few if len(one[1]) <= MAX_LINE and one[1].isascii()]
        self._cookies.extract_cookies(httpx2.Response(200, headers=taken, request=request))
        dropped = len(lines) - len(taken) + self._drop()
        self._has_any = bool(self._cookies)
        return dropped

    def _drop(self) -> int:
        """Drop the cookies beyond the limits, and return how many these are."""
        kept = size = dropped = 0
        for cookie in list(self._cookies.jar):
            large = sum(map(len, (cookie.name, cookie.value or "", cookie.path, cookie.domain)))
            if kept < MAX_COOKIES and size + large <= MAX_BYTES:
                kept, size = kept + 1, size + large
            else:
                dropped += 1
                self._cookies.jar.clear(cookie.domain, cookie.path, cookie.name)
        return dropped
