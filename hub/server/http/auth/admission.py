"""The result of looking at a token: who sent the request, or why it is refused.

What is checked of a token's claims, which profiles of the config a client has by them, and what
clients are told about the tokens that the hub takes (RFC 9728, RFC 6750).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
from msgspec import Struct, field

from hub.protocol.http_headers import origin_in
from hub.values import LOCAL, UNNAMED, Json, JsonObject, identity_of


class GrantedScopes(Struct, frozen=True):
    """The scopes of an issuer's token, and who tells its client how to get more."""

    names: frozenset[str]
    resource: ProtectedResource


class Admission(Struct, frozen=True):
    """A request that is let in, and the principal it comes from.

    Times are in seconds since 1970: from `recheck` on its token has to be looked at again, at
    `expires` the token ends. None: never. `claims` are what an issuer says of the client; None if
    it has no token of one. `profile` is the profile of the config that it is served by; None where
    the config has none. `scopes`: those of its token; None for a token that has no scopes, which is
    refused nothing for want of one.
    """

    principal: str
    recheck: float | None = None
    expires: float | None = None
    claims: Mapping[str, Any] | None = None
    profile: str | None = None
    scopes: GrantedScopes | None = None

    @property
    def granted(self) -> frozenset[str] | None:
        """The scopes of its token; None if it has none that count."""
        return None if self.scopes is None else self.scopes.names

    @property
    def identity(self) -> str:
        """The key of what belongs to the client: nobody else gets it."""
        return identity_of(self.principal, self.profile)

    def owner_at(self, address: str) -> tuple[str, str]:
        """Return whose part of what all clients share its requests take: its principal's.

        Where clients without a name share a principal, the address says whose.
        """
        return self.principal, address if self.principal in {LOCAL, UNNAMED} else ""

    def counts_at(self, clock: Callable[[], float]) -> bool:
        """Return whether its token need not be looked at again yet."""
        return self.recheck is None or clock() < self.recheck

    async def when_expired(self, end: Callable[[], object]) -> None:
        """Call `end` once the token has ended; return at once if it never does."""
        if self.expires is not None:
            await anyio.sleep(max(0.0, self.expires - time.time()))
            end()


class Unverified(Struct, frozen=True):
    """A request with a token of an issuer that has to be verified first.

    `has_let_in`: it counted when it was last verified, so nobody has guessed it.
    """

    token: bytes
    has_let_in: bool = False

    def __repr__(self) -> str:
        return "Unverified()"


class TokenRejection(Struct, frozen=True):
    """Why a token lets nobody in: the HTTP status, the error of RFC 6750, and a sentence.

    401 `invalid_token`; 403 `insufficient_scope`; 503 if the issuer cannot be asked now; 401
    without an error where there is no token.
    """

    status: int
    error: str
    text: str


NO_TOKEN_SENT = TokenRejection(401, "", "A valid token is needed: `Authorization: Bearer TOKEN`")


def invalid(why: str) -> TokenRejection:
    """Return the rejection of a token that is not valid."""
    return TokenRejection(401, "invalid_token", f"The token is not valid: {why}")


class ProfileMatch(Struct, frozen=True):
    """What a client needs for a profile: all of it, and of several values one.

    Either one of the `tokens` of the config, by name, or a signed token: of this `issuer` (None:
    any that the hub trusts), with one of the values for each of the `claims`.
    """

    tokens: frozenset[str] = frozenset()
    issuer: str | None = None
    claims: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def covers(self, admission: Admission) -> bool:
        """Return whether a client that was let in has what is needed."""
        said = admission.claims
        if said is None or self.tokens:
            return said is None and admission.principal in self.tokens
        if self.issuer not in {None, said.get("iss")}:
            return False
        return all(
            not values.isdisjoint(texts_in(said.get(name))) for name, values in self.claims.items()
        )

    def may_cover(self, principal: str) -> bool:
        """Return whether a client of this principal may have what is needed, by some claims."""
        issuer, blank, _subject = principal.partition(" ")
        if not blank:
            return principal in self.tokens
        return not self.tokens and self.issuer in {None, issuer}


class ProfileRules(Struct, frozen=True):
    """The matches of each profile, in the config's order; None: every client has it.

    Without profiles (False) clients have all that the config says.
    """

    matches: Mapping[str, tuple[ProfileMatch, ...] | None] = field(
        default_factory=dict[str, tuple[ProfileMatch, ...] | None]
    )

    def __bool__(self) -> bool:
        return bool(self.matches)

    def of(self, admission: Admission) -> list[str]:
        """Return the profiles of a client; at the endpoint's own URL the first counts."""
        return self._with(lambda one: one.covers(admission))

    def possible(self, principal: str) -> list[str]:
        """Return the profiles that a principal may have; which claims it has is not known."""
        return self._with(lambda one: one.may_cover(principal))

    def _with(self, fits: Callable[[ProfileMatch], bool]) -> list[str]:
        every = self.matches.items()
        return [name for name, matches in every if matches is None or any(map(fits, matches))]


def texts_in(value: object) -> list[str]:
    """Return the texts of a claim: one, or a list of them."""
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
RETRY_AFTER: Final = 30
"""Seconds after which a client may try again, if the issuer could not be asked."""


class ProtectedResource(Struct, frozen=True):
    """The hub as a resource: its public URL, the issuers whose tokens it takes, and the scopes.

    A token must have all `scopes`. `supported` are those that single operations need, too.
    """

    url: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    supported: tuple[str, ...] = ()

    @property
    def scopes_supported(self) -> JsonObject:
        """All scopes, as a field of metadata (RFC 9728, 2; RFC 8414, 2); nothing without any."""
        every = dict.fromkeys((*self.scopes, *self.supported))
        return {"scopes_supported": list[Json](every)} if every else {}

    @property
    def origin(self) -> str | None:
        """The origin of the hub's own pages, as browsers see it."""
        parts = urlsplit(self.url)
        return origin_in(f"{parts.scheme}://{parts.netloc}")

    @property
    def metadata_url(self) -> str:
        """Where the metadata is: the well-known name goes between host and path."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    def has_metadata_at(self, path: str, endpoint: str) -> bool:
        """Return whether a request for this path wants the metadata.

        Clients look below the well-known name for the path of the public URL, for that of the
        endpoint itself (a proxy may have changed it), and for none.
        """
        if not path.startswith(WELL_KNOWN):
            return False
        below = path.removeprefix(WELL_KNOWN).rstrip("/")
        return below in {"", urlsplit(self.url).path.rstrip("/"), endpoint.rstrip("/")}

    @property
    def metadata(self) -> JsonObject:
        """The metadata document (RFC 9728, section 2)."""
        return {
            "resource": self.url,
            "authorization_servers": list[Json](self.issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": "roots-hub",
            **self.scopes_supported,
        }

    def step_up(self, needed: Sequence[str]) -> str:
        """Return the WWW-Authenticate header for a token that lacks one of the scopes `needed`."""
        text = "The operation needs a token with more scopes"
        return self._header(TokenRejection(403, "insufficient_scope", text), needed)

    def challenge(self, rejection: TokenRejection) -> str:
        """Return the WWW-Authenticate header of a request that is refused whatever it asks for."""
        return self._header(rejection, self.scopes)

    def _header(self, rejection: TokenRejection, scopes: Sequence[str]) -> str:
        fields = {"realm": "roots-hub"}
        if rejection.error:
            fields |= {"error": rejection.error, "error_description": rejection.text}
        if scopes:
            fields["scope"] = " ".join(scopes)
        fields["resource_metadata"] = self.metadata_url
        return "Bearer " + ", ".join(f"{name}={_quoted(text)}" for name, text in fields.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(one if " " <= one <= "~" else "?" for one in escaped)}"'


SKEW: Final = 10
"""Seconds that the issuer's clock may differ."""
_MOST_SUBJECT: Final = 255
_FOR_EVER: Final = 1 << 53


class InvalidTokenError(Exception):
    """A token that is not valid: the text says why, as a part of a sentence."""


def check_claims(
    claims: Mapping[str, Any], wanted: Mapping[str, tuple[str, ...]], now: float
) -> None:
    """Check what a token says of itself, whoever has said it: times, person, who may use it.

    Each of the `wanted` claims must have one of its values. Raises: InvalidTokenError.
    """
    _check_times(claims, now)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_SUBJECT:
        raise InvalidTokenError("sub is no name")
    if not subject.isprintable():  # logs show it
        raise InvalidTokenError("sub has characters that cannot be shown")
    # It is of use only with a proof (RFC 8705, RFC 9449), which the hub does not ask for.
    if claims.get("cnf") is not None:
        raise InvalidTokenError("it is bound to a key, and the hub takes bearer tokens alone")
    for name, allowed in wanted.items():
        if not set(texts_in(claims.get(name))) & set(allowed):
            raise InvalidTokenError(f"the claim {name} is another one")


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    """Check when a token begins and ends (RFC 7519, 4.1.4 to 4.1.6), as far as it says so."""
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    for name, at in times.items():
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _FOR_EVER:
            raise InvalidTokenError(f"{name} is no time")
    if times.get("exp", _FOR_EVER) + SKEW <= now:
        raise InvalidTokenError("it has expired")
    if max(times.get("nbf", 0), times.get("iat", 0)) - SKEW > now:
        raise InvalidTokenError("its time has not come yet")


def scopes_in(claims: Mapping[str, Any]) -> set[str]:
    """Return a token's scopes: `scope` (RFC 8693, 4.2), or `scp` as some issuers have it."""
    found = claims.get("scope", claims.get("scp"))
    return {one for text in texts_in(found) for one in text.split(" ") if one}
