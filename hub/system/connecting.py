"""How HTTP clients of the hub connect: each name is looked up in a thread of its own.

The event loop has few threads for all lookups, and a name server that does not answer holds each of
them for many seconds. So one dead name would keep all others from being connected to.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from ipaddress import ip_address
from typing import Final, Protocol, TypeVar, cast
from urllib.request import getproxies, proxy_bypass

import anyio
import httpcore2
import httpx2
from anyio.lowlevel import RunVar

from hub.system.tasks import OwnThread

STAGGER: Final = 0.25
"""Seconds until the next address is tried as well (RFC 8305, section 5)."""

LIMITS: Final = httpx2.Limits(
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0
)
"""Connections of one `web_client`; how many of them may be idle, and for how many seconds."""

LookUp = Callable[[str], Sequence[str]]


def addresses_of(host: str) -> Sequence[str]:
    """Return the addresses of a host: the first, one of the other family, then the rest.

    Raises: OSError or UnicodeError if there are none.
    """
    found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    other = next((one for one in found if (":" in one) != (":" in found[0])), found[0])
    return list(dict.fromkeys((found[0], other, *found)))


@cache
def trusted() -> ssl.SSLContext:
    """Return the TLS context of all clients, made once: to read the certificates holds the loop.

    The certificate authorities are those that this machine trusts.
    """
    return httpx2.create_ssl_context()


class HostLookups:
    """Looks up hosts. Who asks while a lookup is under way gets its result."""

    def __init__(self, look_up: LookUp = addresses_of) -> None:
        self._look_up = look_up
        self._under_way: dict[str, OwnThread[Sequence[str]]] = {}

    async def addresses(self, host: str) -> Sequence[str]:
        """Return the addresses of a host, the best first.

        Raises: OSError or UnicodeError if there are none; RuntimeError if no thread can be started.
        """
        if _is_address(host):
            return (host,)
        lookup = self._under_way.get(host)
        if lookup is None:
            look_up, forget = partial(self._look_up, host), partial(self._under_way.pop, host)
            lookup = self._under_way[host] = OwnThread(look_up, "lookup", forget)
        return await lookup.result()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_here(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


class Closable(Protocol):
    """A connection that can be closed."""

    async def aclose(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Closable)


async def first_connected(
    addresses: Iterable[str],
    connect: Callable[[str], Awaitable[ConnectionT]],
    failures: type[Exception] | tuple[type[Exception], ...],
    stagger: float = STAGGER,
) -> ConnectionT:
    """Return the first connection to one of the addresses, which are tried in turn.

    Each next one is tried when those before have failed, or `stagger` seconds later.

    Raises: the first of the `failures` if all fail.
    """
    opened, failed = list[ConnectionT](), list[Exception]()

    async def attempt(address: str, over: anyio.Event) -> None:
        try:
            connection = await connect(address)
        except failures as exc:
            failed.append(exc)
            over.set()
            return
        opened.append(connection)
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for address in addresses:
                over = anyio.Event()
                tasks.start_soon(attempt, address, over)
                with anyio.move_on_after(stagger):
                    await over.wait()
    except BaseException:
        await _close(opened)
        raise
    await _close(opened[1:])
    if not opened:
        raise failed[0]
    return opened[0]


async def _close(connections: Iterable[Closable]) -> None:
    """Close connections, though the caller is cancelled."""
    with anyio.CancelScope(shield=True):
        for connection in connections:
            await connection.aclose()


_FAILURES = (httpcore2.ConnectError, httpcore2.ConnectTimeout)


class LookingUpBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to what `lookups` finds."""

    def __init__(self, lookups: HostLookups) -> None:
        self._lookups = lookups
        self._backend = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                addresses = await self._lookups.addresses(host)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("its name server does not answer") from None
        except (OSError, UnicodeError, RuntimeError) as exc:
            raise httpcore2.ConnectError(str(exc)) from exc

        def connect(address: str) -> Awaitable[httpcore2.AsyncNetworkStream]:
            return self._backend.connect_tcp(address, port, timeout, local_address, socket_options)

        return await first_connected(addresses, connect, _FAILURES)


class HttpTransport(httpx2.AsyncBaseTransport):
    """Sends requests over connections that `backend` opens, by the proxy of the environment."""

    def __init__(
        self,
        backend: LookingUpBackend,
        limits: httpx2.Limits,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] = (),
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._socket_options = list(socket_options)
        self._by_origin: dict[tuple[str, str, int | None], httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        origin = url.scheme, url.host, url.port
        opened = self._by_origin.get(origin)
        if opened is None:
            opened = self._by_origin[origin] = self._opened(proxy_of(url))
        return await opened.handle_async_request(request)

    def _opened(self, proxy: httpx2.Proxy | None) -> httpx2.AsyncHTTPTransport:
        transport = httpx2.AsyncHTTPTransport(
            verify=trusted(),
            limits=self._limits,
            proxy=proxy,
            socket_options=self._socket_options,
        )
        # The library takes no backend itself.
        transport._pool._network_backend = self._backend  # pyright: ignore[reportPrivateUsage]
        return transport

    async def aclose(self) -> None:
        for transport in self._by_origin.values():
            await transport.aclose()


def proxy_of(url: httpx2.URL) -> httpx2.Proxy | None:
    """Return the proxy that the environment names for a URL; None if it is connected to directly.

    So is this machine, whatever `NO_PROXY` says, and all where the proxy speaks no HTTP (SOCKS).
    """
    if _is_here(url.host) or proxy_bypass(f"{url.host}:{url.port}" if url.port else url.host):
        return None
    named = getproxies()
    found = named.get(url.scheme) or named.get("all") or ""
    with suppress(ValueError, httpx2.InvalidURL):
        proxy = httpx2.URL(found if "://" in found else f"http://{found}")
        if proxy.scheme in {"http", "https"} and proxy.host:
            return httpx2.Proxy(proxy, ssl_context=trusted() if proxy.scheme == "https" else None)
    return None


_lookups: RunVar[HostLookups] = RunVar("lookups")


def _lookups_of_this_loop() -> HostLookups:
    found = _lookups.get(None)
    if found is None:
        found = HostLookups()
        _lookups.set(found)
    return found


def web_client(timeout: float) -> httpx2.AsyncClient:
    """Return an HTTP client for issuers and the like, which follows no redirects."""
    transport = HttpTransport(LookingUpBackend(_lookups_of_this_loop()), LIMITS)
    return httpx2.AsyncClient(timeout=timeout, transport=transport)
