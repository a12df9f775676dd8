"""Access checks of the HTTP endpoint: the Host and Origin headers, and who sends a request.

A page in a browser can make any host name resolve to 127.0.0.1 (DNS rebinding), but cannot forge
the Host and Origin headers. The host that a trusted proxy was asked for is checked as well, as
many proxies pass on whatever their client wrote there. MCP "Transports", security warning.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio
import structlog
from msgspec import Struct, field
from starlette.types import Receive, Scope, Send

from hub.errors import ConfigError
from hub.protocol.http_headers import LOOPBACK_NAMES, is_loopback, is_own, name_in, origin_in
from hub.server.http.auth.admission import (
    RETRY_AFTER,
    Admission,
    ProfileRules,
    ProtectedResource,
    TokenRejection,
    Unverified,
)
from hub.server.http.auth.credentials import BearerTokens, Credentials

if TYPE_CHECKING:
    from hub.server.http.auth.token_verifier import TokenVerifier, Upkeep

BLANKS = b" \t"
"""Blanks around a header's value that are not part of the value (RFC 9110, 5.5)."""
_SHOWN = 200
_READ: Final = 1024
"""How many characters of an Accept header are read: clients name a few media types."""
_ONCE: Final = ("Host", "Origin", "Authorization", "Mcp-Session-Id")
"""Headers of which a proxy may have read another one than the hub (RFC 9110, 5.3)."""
SERVICE_UNAVAILABLE = 503
LOOK_EVERY: Final = 60.0
"""Seconds between two looks at tokens that will end: the clock may be set, the machine sleep."""

log = structlog.stdlib.get_logger(__name__)


class RequestHeaders:
    """The headers of an HTTP request, by lower-case name; the first one if a name is repeated."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self.fields = [(name, value.strip(BLANKS)) for name, value in raw]
        self._first = {name.lower(): value for name, value in reversed(self.fields)}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All headers in their order, names in lower case."""
        return [
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in self.fields
        ]

    def get(self, name: str) -> str | None:
        """Return the (first) value of a header, or None."""
        value = self._first.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def every(self, name: str) -> list[str]:
        """Return all values of a header that may be repeated."""
        wanted = name.encode("latin-1")
        return [value.decode("latin-1") for found, value in self.fields if found.lower() == wanted]

    def count(self, name: str) -> int:
        """Return how often a header occurs."""
        return len(self.every(name))

    @property
    def accept(self) -> str:
        """The media types in the Accept headers: there may be several (RFC 9110, 5.3)."""
        return ",".join(self.every("accept"))

    def accepts(self, kind: str) -> bool:
        """Return whether the Accept header allows a media type such as `application/json`."""
        taken = _taken(self.accept[:_READ])
        return bool(taken & {kind, f"{kind.split('/', maxsplit=1)[0]}/*", "*/*"})

    @property
    def prefers_stream(self) -> bool:
        """Whether Accept names event streams before JSON, and gives no weights (`q=`)."""
        accept = self.accept.lower()
        stream, json = accept.find("text/event-stream"), accept.find("application/json")
        return 0 <= stream < json and "q=" not in accept


@lru_cache
def _taken(accept: str) -> frozenset[str]:
    """Return the media types in an Accept header; cached, as most requests send the same header."""
    return frozenset(part.split(";")[0].strip().lower() for part in accept.split(","))


class Refusal(Struct, frozen=True):
    """The HTTP error that a request is refused with, before its message is parsed."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class ProxiedTo(Struct, frozen=True):
    """What a trusted proxy was asked for: `host`, with its port, and `scheme`; None: not told.

    An empty `host`: two headers tell different ones, and the client may have written one of them.
    """

    host: str | None = None
    scheme: str | None = None


NOT_PROXIED = ProxiedTo()


AccessEnded: TypeAlias = Callable[[Container[str]], None]
"""Is told the principals of which a token is not valid any more."""


class LoginEndpoints(Protocol):
    """Serves the logins that go through the hub."""

    def has(self, path: str) -> bool:
        """Return whether a request to this path is a step of a login."""
        ...

    @property
    def upkeep(self) -> list[Upkeep]:
        """What keeps the connections that logins need."""
        ...

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, address: str, receive: Receive, send: Send
    ) -> None:
        """Serve such a request of a client at this address."""


class TrustedIssuers(Struct, frozen=True):
    """What lets clients in by their users' logins, if anything; `logins` go through the hub."""

    verifier: TokenVerifier | None = None
    logins: LoginEndpoints | None = None


class AccessCheck:
    """Checks each request against the bound address, the names, and who sends it.

    The hub answers to loopback names, to its bound address and to `names`; without `names`, to any
    name if other machines can reach the bound address. Pages of `origins` may use the hub, beside
    pages of its own origin: of the Host header, or of the public URL where issuers make tokens for
    it. `changes` differs once something else is to be checked; `ended` is called when a token ends,
    `profiles_changed` when clients may have other `profiles`, or issuers are trusted in
    another way. `logins` serves the logins that go through the hub, if any do.

    Raises: ConfigError for an address that other machines can reach, without a token.
    """

    def __init__(
        self,
        host: str,
        credentials: Credentials,
        origins: Sequence[str] = (),
        names: Sequence[str] = (),
        profiles: ProfileRules | None = None,
    ) -> None:
        self.logins: LoginEndpoints | None = None
        self._host = host
        self._credentials = credentials
        self._changes = 0
        self.profiles = ProfileRules()
        self.ended: AccessEnded = lambda _principals: None
        self.profiles_changed: Callable[[], None] = lambda: None
        self._followed: anyio.Event | None = None
        self._trusted = anyio.Event()
        self.follow(credentials.tokens, origins, names, profiles)

    def follow(
        self,
        tokens: BearerTokens,
        origins: Sequence[str],
        names: Sequence[str],
        profiles: ProfileRules | None = None,
    ) -> None:
        """Check requests against other tokens, origins, names and profiles from now on.

        Where the profiles change, all streams end: their clients open them anew.

        Raises: ConfigError as for a new `AccessCheck`; then nothing has changed.
        """
        self.ensure_guarded(is_guarded=bool(tokens) or self.resource is not None)
        host = self._host
        has_names = is_loopback(host) or bool(names)
        self._names = LOOPBACK_NAMES | {host, *names} if has_names else None
        ended = self._credentials.follow(tokens)
        self._origins = frozenset(origins)
        before, self.profiles = self.profiles, profiles or ProfileRules()
        self._changes += 1
        if ended:
            self.ended(ended)
        if [*before.matches.items()] != [*self.profiles.matches.items()]:  # their order counts
            self.profiles_changed()
        self.end_lapsed()
        if self._followed is not None:
            self._followed.set()

    def ensure_guarded(self, *, is_guarded: bool) -> None:
        """Check that others reach the hub only where clients need a token. Raises: ConfigError."""
        if not (is_loopback(self._host) or is_guarded):
            raise ConfigError(
                "listen",
                f"{self._host} can be reached from other machines, and there is no token",
                "Set the variable HUB_TOKEN, listen.token or listen.tokens, or bind 127.0.0.1.",
            )

    def trust(self, issuers: TrustedIssuers) -> None:
        """Trust these issuers alone from now on; `follow` must come next.

        What depends on tokens of others ends. All streams end, as each token is looked at again:
        their clients open them anew.
        """
        untrusted = self._credentials.trust(issuers.verifier)
        self.logins = issuers.logins
        self._changes += 1
        self.ended(untrusted)
        self.profiles_changed()
        self._trusted.set()

    def let_log_in(self, logins: LoginEndpoints) -> None:
        """Have these serve the logins that go through the hub from now on."""
        self.logins = logins
        self._trusted.set()

    def end_lapsed(self) -> None:
        """End what depends on tokens of the config that have ended by now; each is logged once."""
        lapsed = self._credentials.lapsed()
        if not lapsed:
            return
        for name in sorted(lapsed):
            log.warning("token has ended", name=name, fix=f"roots-hub token new {name} --days 90")
        self.ended(lapsed)

    async def end_in_time(self) -> None:
        """End what depends on a token of the config when the token ends, until cancelled."""
        while True:
            followed = self._followed = anyio.Event()
            wait = self._credentials.until_next_end()
            with anyio.move_on_after(None if wait is None else min(wait, LOOK_EVERY)):
                await followed.wait()
            self.end_lapsed()

    @property
    def changes(self) -> tuple[int, int]:
        """How often something else was to be checked, and how often issuers' keys changed."""
        return self._changes, self._credentials.changes

    @property
    def needs_token(self) -> bool:
        """Whether each request must have a token of the config."""
        return bool(self._credentials) and self.resource is None

    @property
    def resource(self) -> ProtectedResource | None:
        """What clients are told about tokens of issuers; None if none are taken."""
        return self._credentials.resource

    def knows(self, principal: str) -> bool:
        """Return whether some request can be of a principal with a token of the config, or none."""
        return self._credentials.know(principal)

    def admission(
        self, headers: RequestHeaders, proxied: ProxiedTo = NOT_PROXIED
    ) -> Admission | Refusal | Unverified:
        """Return who sent a request, or why it is refused, as far as is known now."""
        refused = self.place_refusal(headers, proxied)
        if refused is not None:
            return refused
        found = self._credentials.look_at(headers.get("authorization"))
        return self._refusal(found) if isinstance(found, TokenRejection) else found

    async def verified(self, unverified: Unverified) -> Admission | Refusal:
        """Return who sent a request with a token of an issuer, or why it is refused."""
        found = await self._credentials.verified(unverified)
        return self._refusal(found) if isinstance(found, TokenRejection) else found

    async def keep_fresh(self) -> None:
        """Keep what is known of the issuers that are trusted fresh, until cancelled."""
        kept: dict[Upkeep, anyio.CancelScope] = {}
        async with anyio.create_task_group() as tasks:
            while True:
                trusted = self._trusted = anyio.Event()
                wanted = [*self._credentials.upkeep]
                wanted += [] if self.logins is None else self.logins.upkeep
                for gone in kept.keys() - set(wanted):
                    kept.pop(gone).cancel()
                for new in [one for one in wanted if one not in kept]:
                    kept[new] = anyio.CancelScope()
                    tasks.start_soon(_within, kept[new], new)
                await trusted.wait()

    def _refusal(self, rejection: TokenRejection) -> Refusal:
        if rejection.status == SERVICE_UNAVAILABLE:
            return Refusal(rejection.status, rejection.text, {"retry-after": str(RETRY_AFTER)})
        resource = self.resource
        challenge = (
            'Bearer realm="roots-hub"' if resource is None else resource.challenge(rejection)
        )
        return Refusal(rejection.status, rejection.text, {"www-authenticate": challenge})

    def place_refusal(self, headers: RequestHeaders, proxied: ProxiedTo) -> Refusal | None:
        """Return why a request is refused by where it was sent to or its Origin header, or None."""
        for name in _ONCE:
            if headers.count(name.lower()) > 1:
                return Refusal(400, f"The {name} header stands more than once")
        host = headers.get("host") or ""
        refused = self._name_refusal("Host", host)
        if refused is None and proxied.host is not None:
            refused = self._name_refusal("X-Forwarded-Host", proxied.host)
        if refused is not None:
            return refused
        said = headers.get("origin")
        origin = None if said is None else origin_in(said)
        if said is None or origin in self._origins:
            return None
        if origin and self._is_own(origin, host, proxied):
            return None
        return Refusal(
            403,
            f"Invalid Origin header: pages of {said[:_SHOWN]} may not use this hub, "
            "unless its operator lists that origin in listen.origins",
        )

    def _is_own(self, origin: str, host: str, proxied: ProxiedTo) -> bool:
        # A proxy may send a Host header of its own, and people answer on a page of the hub.
        public = None if self.resource is None else self.resource.origin
        return origin == public or is_own(origin, proxied.host or host, proxied.scheme)

    def _name_refusal(self, header: str, host: str) -> Refusal | None:
        name = name_in(host)
        if self._names is None or name in self._names:
            return None
        if not name:
            other = "" if header == "Host" else ", or Forwarded says another"
            return Refusal(421, f"Invalid {header} header: it has no host name{other}")
        return Refusal(
            421,
            f"Invalid {header} header: this hub does not answer to the name {name[:_SHOWN]!a}, "
            "unless its operator lists that name in listen.names, and sets a token",
        )

    def shared_with(self, headers: RequestHeaders) -> str | None:
        """Return the Origin header if `origins` lists it: its page may read the response."""
        said = headers.get("origin") if self._origins else None
        origin = None if said is None else origin_in(said)
        return said if origin in self._origins else None


async def _within(scope: anyio.CancelScope, keep: Upkeep) -> None:
    with scope:
        await keep()
