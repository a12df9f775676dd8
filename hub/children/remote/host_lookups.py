"""The addresses of a remote child's host, looked up in a thread of this child's own.

The event loop has few threads for all lookups, and a name server that does not answer holds each of
them for many seconds. So one child's dead name would keep all other children from connecting.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final, Protocol, TypeVar

import anyio

from hub.system.threads import OwnThread

STAGGER: Final = 0.25
"""Seconds until the next address is tried as well (RFC 8305, section 5)."""

LookUp = Callable[[str], Sequence[str]]


def addresses_of(host: str) -> Sequence[str]:
    """Return the addresses of a host: the first, one of the other family, then the rest.

    Raises: OSError or UnicodeError if there are none.
    """
    found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    other = next((one for one in found if (":" in one) != (":" in found[0])), found[0])
    return list(dict.fromkeys((found[0], other, *found)))


class HostLookups:
    """Looks up the hosts of one child. Who asks while a lookup is under way gets its result."""

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
