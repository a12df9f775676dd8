"""What links, forms and addresses of the pages carry, sealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from hub.system.sealing import Sealer, SealingSecrets


class _Ticket(Struct, frozen=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # what is sealed is secret


class LinkTicket(_Ticket, frozen=True):
    """A link for one principal to the login at a server. `until` is in seconds since 1970."""

    server: str
    principal: str
    until: float


class VisitTicket(_Ticket, frozen=True):
    """A browser that has opened the page of a server, and has not shown yet whose it is.

    `principal` is the one that the link was for; empty: there was no link. `browser` is a hash of
    its cookie.
    """

    server: str
    principal: str
    browser: str
    until: float


class IssuerTicket(_Ticket, frozen=True):
    """The same while it is at an issuer, with the PKCE verifier and the nonce there."""

    visit: VisitTicket
    issuer: str
    verifier: str
    nonce: str
    until: float


class ShownTicket(_Ticket, frozen=True):
    """A browser that has shown whose it is: that of `principal`."""

    server: str
    principal: str
    browser: str
    until: float


TicketT = TypeVar("TicketT", LinkTicket, VisitTicket, IssuerTicket, ShownTicket)
_PURPOSES: Final[dict[type[Struct], str]] = {
    LinkTicket: "login page link",
    VisitTicket: "login page visit",
    IssuerTicket: "login page issuer",
    ShownTicket: "login page shown",
}


class LoginTickets:
    """Seals tickets for the pages at `address`, and opens what has not ended."""

    def __init__(
        self, sealed_with: SealingSecrets, address: str, clock: Callable[[], float]
    ) -> None:
        self._address = address
        self.clock = clock
        self._sealers = {kind: Sealer(sealed_with, about) for kind, about in _PURPOSES.items()}

    def seal(self, ticket: TicketT) -> str:
        """Return a ticket as a text."""
        return self._sealers[type(ticket)].seal(msgspec.json.encode(ticket), self._address)

    def open(self, text: str, kind: type[TicketT]) -> TicketT | None:
        """Return the ticket in a text; None if it is none of this kind, or has ended."""
        plain = self._sealers[kind].open(text, self._address)
        try:
            ticket = None if plain is None else msgspec.json.decode(plain, type=kind)
        except msgspec.MsgspecError:
            return None  # another version of the hub has sealed it
        return ticket if ticket is not None and self.clock() < ticket.until else None
