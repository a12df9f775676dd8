"""What clients and browsers carry for the hub while somebody logs in, and afterwards: sealed.

The access tokens that the hub itself gives are such tickets (`new_token`, `HubTokens`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import Struct

from hub.server.http.auth.claims import InvalidTokenError, check_subject, check_wanted
from hub.server.http.auth.token_verifier import MOST_CHARACTERS
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.registration import ProxiedClient
from hub.system.sealing import Sealer, SealingSecrets

PREFIX: Final = "rht_"
"""By which tokens of the hub are known; programs that look for leaked secrets can know them too."""


class Ticket(Struct, frozen=True, kw_only=True):
    """What is sealed for its own purpose; `until` is in seconds since 1970."""

    purpose: ClassVar[str]
    until: float

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # what is sealed is secret


class LoginRequest(Ticket, frozen=True):
    """What a client asks for, while its user is asked for consent.

    `client` and `browser` are hashes: of the client's id, and of a cookie of the browser. `scopes`
    are those beside the general ones.
    """

    purpose = "oauth login request"
    client: str
    redirect_uri: str
    challenge: str
    state: str | None
    browser: str
    scopes: tuple[str, ...] = ()


class PendingLogin(Ticket, frozen=True):
    """A login that goes on at the identity provider, with its PKCE verifier and nonce there."""

    purpose = "oauth pending login"
    request: LoginRequest
    verifier: str
    nonce: str


class LoginCode(Ticket, frozen=True):
    """A login that has come back: what the provider's code is redeemed with, once."""

    purpose = "oauth code"
    code: str
    login: PendingLogin


class RefreshTicket(Ticket, frozen=True):
    """What a client gets new tokens with: the provider's own refresh token, and the claims.

    `scopes` are those beside the general ones that the person has agreed to.
    """

    purpose = "oauth refresh token"
    token: str
    client: str
    claims: Mapping[str, Any]
    scopes: tuple[str, ...] = ()


class AccessTicket(Ticket, frozen=True):
    """What a client's calls are let in by: the claims of the provider's ID token."""

    purpose = "oauth access token"
    claims: Mapping[str, Any]


TicketT = TypeVar("TicketT", bound=Ticket)
StructT = TypeVar("StructT", bound=Struct)


class TicketSealer:
    """Seals tickets for one `place`, and opens what has not ended."""

    def __init__(self, sealed_with: SealingSecrets, place: str, clock: Callable[[], float]) -> None:
        self._sealed_with = sealed_with
        self._place = place
        self.clock = clock
        self._sealers: dict[type[Ticket], Sealer] = {}

    def _of(self, kind: type[Ticket]) -> Sealer:
        found = self._sealers.get(kind)
        if found is None:
            found = self._sealers[kind] = Sealer(self._sealed_with, kind.purpose)
        return found

    def seal(self, ticket: Ticket) -> str:
        """Return a ticket as a text.

        Raises: OAuthError if the provider has said what is no text.
        """
        try:
            plain = msgspec.json.encode(ticket)
        except (ValueError, OverflowError, RecursionError):
            text = "what the identity provider says of the person cannot be kept"
            raise OAuthError("server_error", text) from None
        return self._of(type(ticket)).seal(plain, self._place)

    def open(self, text: str, kind: type[TicketT]) -> TicketT | None:
        """Return the ticket in a text; None if it is none of this kind, or has ended."""
        ticket = _decoded(self._of(kind).open(text, self._place), kind)
        return ticket if ticket is not None and self.clock() < ticket.until else None


class Tickets(TicketSealer):
    """The same for the hub at `resource`, with the ids of clients.

    All but these ids are about people of the provider `issuer`: with another one they do not open,
    so that it gets no codes and tokens of this one.
    """

    def __init__(
        self,
        sealed_with: SealingSecrets,
        resource: str,
        issuer: str,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(sealed_with, f"{resource}\n{issuer}", clock)
        self._resource = resource
        self._clients = Sealer(sealed_with, "oauth client")

    def id_of(self, client: ProxiedClient) -> str:
        """Return the id of a client, which says all of it."""
        return self._clients.seal(msgspec.json.encode(client), self._resource)

    def client(self, id_: str) -> ProxiedClient | None:
        """Return the client with this id; None if the hub has not given it."""
        return _decoded(self._clients.open(id_, self._resource), ProxiedClient)


def _decoded(plain: bytes | None, kind: type[StructT]) -> StructT | None:
    """Return what was sealed; None too if another version of the hub has sealed something else."""
    try:
        return None if plain is None else msgspec.json.decode(plain, type=kind)
    except (msgspec.DecodeError, ValueError):
        return None


def hash_of(text: str) -> str:
    """Return by which a ticket knows a client or a browser again."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_hash_of(text: str, hashed: str) -> bool:
    """Return whether `hash_of` gave this for a text."""
    return hmac.compare_digest(hashed, hash_of(text))


def new_token(tickets: Tickets, claims: Mapping[str, Any], scope: str, *, until: float) -> str:
    """Return an access token for a person with these claims, and the scopes in `scope` alone.

    Raises: OAuthError if it would be longer than the hub takes.
    """
    said = {**claims, "exp": until, "scope": scope}
    token = f"{PREFIX}{tickets.seal(AccessTicket(said, until=until))}"
    if len(token) > MOST_CHARACTERS:
        text = "the ID token says too much for an access token: ask the provider for fewer claims"
        raise OAuthError("server_error", text)
    return token


class HubTokens:
    """Verifies the hub's own tokens: of people of `issuer` who have the `wanted` claims."""

    def __init__(
        self, tickets: Tickets, issuer: str, wanted: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._tickets = tickets
        self._issuer = issuer
        self._wanted = wanted

    def has_form(self, token: str) -> bool:
        """Return whether a token looks like one of the hub's."""
        return token.startswith(PREFIX)

    def verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token.

        Raises: InvalidTokenError.
        """
        ticket = self._tickets.open(token.removeprefix(PREFIX), AccessTicket)
        if ticket is None:
            raise InvalidTokenError("it is none of the hub's, or has ended")
        if ticket.claims.get("iss") != self._issuer:
            raise InvalidTokenError("its issuer is none of the hub's")
        check_subject(ticket.claims)
        check_wanted(ticket.claims, self._wanted)
        return ticket.claims
