"""What trusted proxies say about a request: its client's address, the host and scheme asked for.

RFC 7239 for `Forwarded`; most proxies send `X-Forwarded-For`, `-Host` and `-Proto`. Each proxy
appends the address that it got the request from. Read from the right, the first address that is no
trusted proxy is the client. The client itself wrote everything left of that address, so it means
nothing. Of several hosts or schemes the rightmost counts, which the nearest proxy wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from hub.server.http.access import NOT_PROXIED, ProxiedTo, RequestHeaders

UNKNOWN: Final = "unknown"
_SITE: Final = 64
"""Leading bits of an IPv6 address that belong to one customer, who chooses the other bits."""
_PROXIES: Final = 16
"""How many entries of a header are read, from the right: there are fewer proxies in a row."""
_LONGEST: Final = 2048
"""How many characters of a header are read, from the right."""
_KEPT: Final = 1024
"""How many addresses are cached: each request counts for one."""
_PART: Final = r"""(?:^|;)\s*%s\s*=\s*("[^"]*"|[^;\s]*)"""
_FOR: Final = re.compile(_PART % "for", re.IGNORECASE)
_HOST: Final = re.compile(_PART % "host", re.IGNORECASE)
_PROTO: Final = re.compile(_PART % "proto", re.IGNORECASE)
_PORT: Final = re.compile(r"^(?:\[([^\]]*)\]|([0-9.]+))(?::[0-9]+)?$")

_Address: TypeAlias = IPv4Address | IPv6Address


class Proxies:
    """The proxies that are trusted to name the client of a request; by default none.

    `trusted` are addresses and networks such as `10.0.0.0/8`.
    """

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self.follow(trusted)

    def follow(self, trusted: Sequence[str]) -> None:
        """Trust these proxies, and no others, from now on."""
        self._networks = tuple(ip_network(one, strict=False) for one in trusted)

    def includes(self, address: str) -> bool:
        """Return whether an address is a trusted proxy's, or a network (`network_of`) has one."""
        if "/" in address:
            return any(ip_network(address).overlaps(one) for one in self._networks)
        return bool(self._networks) and self._is_trusted(_parsed(address))

    def client(self, peer: str | None, headers: RequestHeaders) -> str:
        """Return the address that counts for a request on a connection from `peer`.

        That is `peer` itself if it is no trusted proxy, or does not name one client clearly. An
        IPv6 address counts as its network, which has one owner.
        """
        own = _parsed(peer or "")
        if not self._is_trusted(own):
            return _shown(own)
        said = [
            self._rightmost(chain)
            for chain in (_listed(headers, "x-forwarded-for"), _forwarded(headers, _FOR))
            if chain
        ]
        # A proxy writes one of the two headers and forwards the other unread: both must agree.
        named = said[0] if said and all(one == said[0] for one in said) else None
        return _shown(named or own)

    def proxied(self, peer: str | None, headers: RequestHeaders) -> ProxiedTo:
        """Return what a request's proxy was asked for; nothing if `peer` is no trusted proxy."""
        if not self._networks or not self._is_trusted(_parsed(peer or "")):
            return NOT_PROXIED
        return ProxiedTo(
            _agreed(_listed(headers, "x-forwarded-host"), _forwarded(headers, _HOST)),
            _agreed(_listed(headers, "x-forwarded-proto"), _forwarded(headers, _PROTO)) or None,
        )

    def _rightmost(self, chain: Sequence[str]) -> _Address | None:
        for text in reversed(chain):
            address = _parsed(text)
            if address is None or not self._is_trusted(address):
                return address
        return None

    def _is_trusted(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


@lru_cache(_KEPT)
def network_of(address: str) -> str:
    """Return what an address counts as: itself, or the network of an IPv6 address."""
    return _shown(_parsed(address))


def _listed(headers: RequestHeaders, name: str) -> list[str]:
    return [part.strip() for part in _last_entries(headers, name) if part]


def _forwarded(headers: RequestHeaders, part: re.Pattern[str]) -> list[str]:
    found = [part.search(element) for element in _last_entries(headers, "forwarded")]
    return ["" if one is None else one[1].strip('"') for one in found]


def _last_entries(headers: RequestHeaders, name: str) -> list[str]:
    """Return the entries that proxies wrote; a client may have written many more before them."""
    end = ",".join(headers.every(name))[-_LONGEST:]
    return end.rsplit(",", _PROXIES)[-_PROXIES:] if end else []


def _agreed(*chains: list[str]) -> str | None:
    """Return the rightmost text of the chains in lower case; None if none, "" if no single one."""
    said = {chain[-1].lower() for chain in chains if chain} - {""}
    return (said.pop() if len(said) == 1 else "") if said else None


def _parsed(text: str) -> _Address | None:
    found = _PORT.match(text)
    try:
        address = ip_address((found[1] or found[2]) if found else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _shown(address: _Address | None) -> str:
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(IPv6Network((address, _SITE), strict=False))
    return UNKNOWN if address is None else str(address)
