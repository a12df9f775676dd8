"""The identity provider, where the hub is a client of its own (OpenID Connect Core, 3.1)."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import anyio
from msgspec import Struct

from hub.logins.issuer_requests import OK, posted
from hub.logins.login import RegisteredClient
from hub.protocol.http_headers import is_private
from hub.server.http.auth.admission import InvalidTokenError
from hub.server.http.auth.issuer_metadata import (
    TIMEOUT,
    IssuerConnection,
    IssuerUnavailableError,
    OpenClient,
    Outage,
    json_object,
    metadata_of,
    open_client,
)
from hub.server.http.auth.signed_tokens import SignedTokens
from hub.server.http.oauth_proxy.errors import FOR_NOW, OAuthError, RefusedGrantError

AT_ONCE: Final = 16
"""How many codes and refresh tokens it is asked about at once; others wait."""
APART: Final = 5.0
"""Seconds after which it is looked for again, if it could not be found."""
QUEUE: Final = 28.0
"""Seconds that a question waits for others before it is given up."""
LASTS: Final = 600.0
"""Seconds after which its endpoints are looked up again; so they are if one of them fails."""
_REFUSED: Final = frozenset({400, 401, 403})
_ADDRESS: Final = re.compile(r"[!-\"$-~]+")
"""What can be sent in a header, without a fragment."""
_DIGITS: Final = re.compile(r"[0-9]{1,10}")
_BASIC: Final = "client_secret_basic"


class ProviderClient(Struct, frozen=True):
    """The hub's own client at the provider; `scopes` and `parameters` go into each login."""

    id: str
    secret: str
    scopes: tuple[str, ...]
    parameters: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ProviderClient({self.id!r})"


class ProviderTokens(Struct, frozen=True):
    """What the provider gives for a code or a refresh token."""

    id_token: str | None = None
    refresh_token: str | None = None
    expires_in: float | None = None

    def __repr__(self) -> str:
        return "ProviderTokens()"


class _Endpoints(Struct, frozen=True):
    authorization: str
    token: str
    uses_basic: bool
    says_issuer: bool


class IdentityProvider(IssuerConnection):
    """The provider `issuer`; people come back from it to `redirect_uri`.

    Anybody can make the hub ask it: at most `AT_ONCE` questions are under way, and where it is, is
    asked by one for all. `clock` gives seconds, from any start.
    """

    def __init__(
        self,
        issuer: str,
        client: ProviderClient,
        redirect_uri: str,
        http: OpenClient = open_client,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(issuer, http)
        self.client_id = client.id
        self._client = client
        self._redirect_uri = redirect_uri
        self._endpoints: _Endpoints | None = None
        self._good_until = 0.0
        self._clock = clock
        self._not_found: tuple[float, IssuerUnavailableError] | None = None
        self._turn = anyio.Lock()
        self._room = anyio.CapacityLimiter(AT_ONCE)
        self._outage = Outage(
            issuer,
            "the identity provider cannot be asked",
            "nobody can log in through the hub until it answers",
            "the identity provider answers again",
        )

    async def login_url(self, *, state: str, verifier: str, nonce: str) -> str:
        """Return where a person logs in; `verifier` is that of PKCE. Raises: OAuthError."""
        with self._asking():
            found = await self._found()
        asked = {
            **self._client.parameters,
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self._client.scopes))),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(found.authorization).query else "?"
        return f"{found.authorization}{joint}{urlencode(asked)}"

    async def check_answer(self, issuer: str | None) -> None:
        """Check who has sent a person back (RFC 9207). Raises: OAuthError."""
        with self._asking():
            found = await self._found()
        if issuer != self.issuer and (issuer is not None or found.says_issuer):
            raise OAuthError("access_denied", "the answer is not from the identity provider")

    async def redeemed(self, code: str, verifier: str) -> ProviderTokens:
        """Return the tokens for a code. Raises: OAuthError."""
        form = {"code": code, "redirect_uri": self._redirect_uri, "code_verifier": verifier}
        with self._asking():
            return await self._tokens({"grant_type": "authorization_code", **form})

    async def refreshed(self, token: str) -> ProviderTokens:
        """Return the tokens for a refresh token. Raises: OAuthError."""
        with self._asking():
            return await self._tokens({"grant_type": "refresh_token", "refresh_token": token})

    async def try_out(self) -> None:
        """Try whether the provider takes the hub's client, with a code that is none.

        Raises: IssuerUnavailableError if it does not, or cannot be asked.
        """
        try:
            await self._tokens({"grant_type": "authorization_code", "code": "none"})
        except OAuthError:
            return  # it has looked at the code, and so has taken the client
        finally:
            await self.aclose()

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Say to the client that the provider cannot be asked, and to the log, once, why."""
        try:
            yield
        except IssuerUnavailableError as exc:
            self._outage.note(exc)
            text = "the identity provider cannot be asked now"
            raise OAuthError(FOR_NOW, text) from None

    async def _found(self) -> _Endpoints:
        """Return its endpoints: those of before, if it cannot be asked for them anew."""
        known = self._endpoints
        if known is not None and self._clock() < self._good_until:
            return known
        async with self._turn:
            if self._endpoints is not None and self._endpoints is not known:
                return self._endpoints
            try:
                self._endpoints = found = await self._looked_up()
            except IssuerUnavailableError:
                if known is None:
                    raise
                return known
        return found

    async def _looked_up(self) -> _Endpoints:
        since, failure = self._not_found or (0.0, None)
        if failure is not None and self._clock() - since < APART:
            raise failure.with_traceback(None)
        try:
            with _in_time(self.issuer):
                told = await metadata_of(self.issuer, self.http)
            found = _endpoints_in(told, self.issuer)
        except IssuerUnavailableError as exc:
            self._not_found = self._clock(), exc
            raise
        self._outage.end()
        self._good_until = self._clock() + LASTS
        return found

    async def _tokens(self, form: dict[str, str]) -> ProviderTokens:
        found = await self._found()
        try:
            with anyio.fail_after(QUEUE):
                await self._room.acquire()
        except TimeoutError:
            raise OAuthError(FOR_NOW, "too many others ask the identity provider now") from None
        try:
            return await self._tokens_at(found, form)
        except IssuerUnavailableError:
            self._good_until = 0.0
            raise
        finally:
            self._room.release()

    async def _tokens_at(self, found: _Endpoints, form: dict[str, str]) -> ProviderTokens:
        method = "client_secret_basic" if found.uses_basic else "client_secret_post"
        client = RegisteredClient(self._client.id, self._client.secret, method)
        try:
            with _in_time(found.token):
                answer = await posted(found.token, form, client, self.http)
            said = json_object(answer.body, found.token)
        except IssuerUnavailableError:
            raise
        except Exception as exc:  # noqa: BLE001 - no answer may be an error of the hub
            why = f"{found.token}: {type(exc).__name__}: {exc}"
            raise IssuerUnavailableError(why) from None
        status, error = answer.status, said.get("error")
        if status == OK:
            self._outage.end()
            return _tokens_in(said)
        if status in _REFUSED and error == "invalid_grant":
            self._outage.end()
            raise RefusedGrantError("the identity provider does not take it any more")
        raise IssuerUnavailableError(f"{found.token}: HTTP status {status}, {str(error)[:100]!r}")


def challenge_of(verifier: str) -> str:
    """Return the challenge of a PKCE verifier (RFC 7636, 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@contextmanager
def _in_time(url: str) -> Generator[None]:
    try:
        with anyio.fail_after(TIMEOUT):
            yield
    except TimeoutError:
        raise IssuerUnavailableError(f"{url}: no answer in {TIMEOUT:g} s") from None


def _endpoints_in(told: Mapping[str, Any], issuer: str) -> _Endpoints:
    urls = [told.get("authorization_endpoint"), told.get("token_endpoint")]
    for url in urls:
        if not isinstance(url, str) or not is_private(url) or not _ADDRESS.fullmatch(url):
            raise IssuerUnavailableError(f"{issuer}: names no endpoints with https")
    methods = told.get("token_endpoint_auth_methods_supported", [_BASIC])
    uses_basic = not isinstance(methods, list) or _BASIC in methods
    says_issuer = told.get("authorization_response_iss_parameter_supported") is True
    return _Endpoints(str(urls[0]), str(urls[1]), uses_basic, says_issuer)


def _tokens_in(said: Mapping[str, Any]) -> ProviderTokens:
    return ProviderTokens(
        id_token=_text(said.get("id_token")),
        refresh_token=_text(said.get("refresh_token")),
        expires_in=_seconds(said.get("expires_in")),
    )


def _seconds(value: object) -> float | None:
    """Return how long a token lasts; some providers say it as a text. None: it is not said."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if value >= 1 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


class IdTokens:
    """Verifies what the provider says of a person, in an ID token (OpenID Connect Core, 3.1.3.7).

    It is for the hub's client `client_id`; `signed` takes tokens for it alone.
    """

    def __init__(self, client_id: str, signed: SignedTokens) -> None:
        self._client_id = client_id
        self._signed = signed

    async def claims(self, given: ProviderTokens, *, nonce: str | None) -> Mapping[str, Any] | None:
        """Return the ID token's claims; None without one. `nonce` None: any. Raises: OAuthError."""
        if given.id_token is None:
            return None
        try:
            said = (await self._signed.verified(given.id_token)).claims
        except InvalidTokenError as exc:
            raise RefusedGrantError(f"the ID token does not let in: {exc}") from None
        except IssuerUnavailableError:
            text = "the identity provider cannot be asked now"
            raise OAuthError(FOR_NOW, text) from None
        if (nonce or said.get("nonce")) != said.get("nonce"):
            raise RefusedGrantError("the ID token is of another login")
        if said.get("azp", self._client_id) != self._client_id:
            raise RefusedGrantError("the ID token is for another client")
        return said
