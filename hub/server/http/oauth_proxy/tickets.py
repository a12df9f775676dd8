"""What clients and browsers carry for the hub while somebody logs in, and afterwards: sealed.

The id of a client that registers itself (RFC 7591) says all that is known of it. The access tokens
that the hub itself gives are such tickets (`new_token`, `HubTokens`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from hub.protocol.http_headers import is_loopback
from hub.server.http.auth.admission import InvalidTokenError, check_claims
from hub.server.http.auth.token_verifier import MOST_CHARACTERS
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.system.sealing import Sealer, SealingSecrets

MOST_URIS: Final = 10
LONGEST_URI: Final = 1000
"""Of one redirect URI."""
_LONGEST_NAME: Final = 80
_NO_APP: Final = frozenset(
    {"about", "blob", "data", "file", "filesystem", "ftp", "javascript", "mailto", "vbscript"}
    | {"view-source", "ws", "wss"}
)
"""Schemes that no app has for its own (RFC 8252, 7.1): browsers and systems use them."""
_CHARACTERS: Final = re.compile(r"[!#-&(-;=?-\[\]_a-z~]+")
"""What a URI is made of (RFC 3986, 2), but for `'`. Browsers take `\\` for `/`."""
_AUTHORITY: Final = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)
"""A host that everybody reads alike: `urlsplit` finds one in texts where browsers find another."""


class ProxiedClient(Struct, frozen=True):
    """A client: where its users are sent back to, and what it calls itself."""

    redirect_uris: tuple[str, ...]
    name: str
    issued: float

    def takes(self, uri: str) -> bool:
        """Return whether users may be sent there: one of its URIs, letter by letter.

        Of a loopback address the port may be another one (RFC 8252, 7.3).
        """
        if _objection(uri):
            return False  # a port must not hide what nobody could have registered
        registered = {_without_port(one) for one in self.redirect_uris} - {None}
        return uri in self.redirect_uris or _without_port(uri) in registered


def client_in(body: Mapping[str, Any], now: float) -> ProxiedClient:
    """Return the client that a registration request describes. Raises: OAuthError."""
    uris = body.get("redirect_uris")
    if not isinstance(uris, list) or not 0 < len(cast("list[object]", uris)) <= MOST_URIS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris must be 1 to {MOST_URIS} URIs")
    for one in cast("list[object]", uris):
        why = _objection(one) if isinstance(one, str) else "is no redirect URI"
        if why:
            raise OAuthError("invalid_redirect_uri", f"{str(one)[:100]!r} {why}")
    name = body.get("client_name")
    shown = name if isinstance(name, str) else ""
    plain = "".join(one for one in shown if one.isprintable()).strip()[:_LONGEST_NAME]
    return ProxiedClient(tuple(cast("list[str]", uris)), plain, now)


def _objection(uri: str) -> str:
    """Return why users may not be sent to a URI; empty if they may."""
    if not 0 < len(uri) <= LONGEST_URI:
        return f"has more than {LONGEST_URI} characters, or none"
    if not _CHARACTERS.fullmatch(uri):
        return "has characters that no URI has"
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
        _ = parts.port  # a ValueError if it is none
    except ValueError:
        return "is no URI"
    if "#" in uri or "@" in parts.netloc:
        return "has a fragment or a user"
    if parts.scheme in {"http", "https"}:
        is_host = bool(_AUTHORITY.fullmatch(parts.netloc))
        is_safe = is_host and (parts.scheme == "https" or is_loopback(host))
        return "" if is_safe else "must begin with https:// and a host"
    # Apps have a slash there (RFC 8252, 7.1); what else stands there may be a command.
    is_apps = parts.scheme not in _NO_APP and uri.startswith("/", len(parts.scheme) + 1)
    return "" if parts.scheme and is_apps else "has no scheme of an app"


def _without_port(uri: str) -> str | None:
    """Return a loopback URI without its port; None for any other."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme != "http" or not is_loopback(host) or "@" in parts.netloc:
        return None
    return parts._replace(netloc=host).geturl()


def registered(client_id: str, client: ProxiedClient) -> dict[str, Any]:
    """Return the answer to a registration (RFC 7591, 3.2.1)."""
    return {
        "client_id": client_id,
        "client_id_issued_at": int(client.issued),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }


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
        """Return a ticket as a text. Raises: OAuthError if the provider has said no text."""
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

    def __call__(self, token: str) -> Mapping[str, Any] | None:
        """Return a token's claims; None if it is not like the hub's. Raises: InvalidTokenError."""
        if not token.startswith(PREFIX):
            return None
        ticket = self._tickets.open(token.removeprefix(PREFIX), AccessTicket)
        if ticket is None:
            raise InvalidTokenError("it is none of the hub's, or has ended")
        if ticket.claims.get("iss") != self._issuer:
            raise InvalidTokenError("its issuer is none of the hub's")
        check_claims(ticket.claims, self._wanted, self._tickets.clock())
        return ticket.claims
