"""Asks an issuer about tokens that say nothing themselves (RFC 7662, token introspection)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import anyio
from msgspec import Struct, field

from hub.logins.issuer_requests import OK, NoAnswerError, posted
from hub.logins.login import RegisteredClient
from hub.server.http.auth.admission import InvalidTokenError, check_claims, texts_in
from hub.server.http.auth.issuer_metadata import (
    TIMEOUT,
    IssuerConnection,
    IssuerUnavailableError,
    OpenClient,
    Outage,
    endpoint_of,
    json_object,
    open_client,
)

COUNTS: Final = 10.0
"""Seconds that an answer counts: so soon a token that was taken back is refused."""
STREAMS_END: Final = 300.0
"""Seconds after which a stream ends that an opaque token has opened; clients open another one."""
AT_ONCE: Final = 16
"""How many questions are under way at once; others wait."""
KEPT: Final = 10_000
"""How many refused tokens are remembered; at this number all are forgotten."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What a bearer token is made of (RFC 6750, section 2.1)."""

Claims: TypeAlias = Mapping[str, Any]


class IntrospectionClient(Struct, frozen=True):
    """How the hub asks: as which client; `url` is where, None: where the metadata says."""

    id: str
    secret: str
    url: str | None = None

    def __repr__(self) -> str:
        return f"IntrospectionClient({self.id!r})"


class IntrospectionEndpoint(IssuerConnection):
    """The introspection endpoint of `issuer`."""

    def __init__(
        self, issuer: str, client: IntrospectionClient, http: OpenClient = open_client
    ) -> None:
        super().__init__(issuer, http)
        self._client = client
        self._url = client.url
        self._room = anyio.CapacityLimiter(AT_ONCE)

    async def __call__(self, token: str) -> Claims:
        """Return what the issuer says of a token. Raises: IssuerUnavailableError."""
        try:
            with anyio.fail_after(TIMEOUT):
                async with self._room:
                    return await self._asked(token)
        except (TimeoutError, IssuerUnavailableError) as exc:
            asked, self._url = self._url, self._client.url  # it may have moved: looked up again
            if isinstance(exc, IssuerUnavailableError):
                raise
            why = f"{asked or self.issuer}: no answer in {TIMEOUT:g} s"
            raise IssuerUnavailableError(why) from None

    async def _asked(self, token: str) -> Claims:
        url = self._url or await endpoint_of(self.issuer, "introspection_endpoint", self.http)
        self._url = url  # another question that fails forgets it
        asked = {"token": token, "token_type_hint": "access_token"}
        client = RegisteredClient(self._client.id, self._client.secret, "client_secret_basic")
        try:
            answer = await posted(url, asked, client, self.http)
        except NoAnswerError as exc:
            raise IssuerUnavailableError(f"{url}: {exc}") from exc
        if answer.status != OK:
            raise IssuerUnavailableError(f"{url}: HTTP status {answer.status}")
        return json_object(answer.body, url)


class Question(Struct, eq=False):
    """A question under way about a token; `outcome` is None if whoever asked has gone."""

    over: anyio.Event = field(default_factory=anyio.Event)
    outcome: Claims | InvalidTokenError | IssuerUnavailableError | None = None


class OpaqueTokens:
    """Takes the tokens of `issuer` for `audience` that have the `wanted` claims, by asking it.

    The `endpoint` is asked. There is one question about a token at a time. A token that was refused
    is refused for `COUNTS` seconds without another question. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        issuer: str,
        audience: str,
        wanted: Mapping[str, tuple[str, ...]],
        endpoint: IntrospectionEndpoint,
        clock: Callable[[], float],
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._wanted = wanted
        self.endpoint = endpoint
        self._clock = clock
        self._under_way: dict[bytes, Question] = {}
        self._refused: dict[bytes, tuple[float, InvalidTokenError]] = {}
        self._outage = Outage(
            issuer,
            "an issuer cannot be asked about tokens",
            "tokens that it was not asked about lately get 503 until it answers",
            "an issuer answers questions about tokens again",
        )

    async def verified(self, token: str) -> Claims:
        """Return the claims of a token, `iss` and `sub` among them.

        Raises: InvalidTokenError; IssuerUnavailableError if the issuer cannot be asked now.
        """
        if not _TOKEN.fullmatch(token):
            raise InvalidTokenError("it has characters that no token has")
        key = hashlib.sha256(token.encode()).digest()
        until, why = self._refused.get(key, (0.0, None))
        if why is not None and self._clock() < until:
            raise why.with_traceback(None)
        outcome = None
        while outcome is None:
            question = self._under_way.get(key)
            if question is None:
                outcome = await self._asked(key, token)
            else:
                await question.over.wait()
                outcome = question.outcome
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        return outcome

    async def _asked(
        self, key: bytes, token: str
    ) -> Claims | InvalidTokenError | IssuerUnavailableError:
        question = self._under_way[key] = Question()
        try:
            question.outcome = await self._outcome(token)
        finally:
            del self._under_way[key]
            question.over.set()
        if isinstance(question.outcome, InvalidTokenError):
            if len(self._refused) >= KEPT:
                self._refused.clear()
            self._refused[key] = self._clock() + COUNTS, question.outcome
        return question.outcome

    async def _outcome(self, token: str) -> Claims | InvalidTokenError | IssuerUnavailableError:
        try:
            said = await self.endpoint(token)
        except Exception as exc:  # noqa: BLE001 - no issuer may end the hub
            self._outage.note(exc)
            return IssuerUnavailableError(str(exc))
        self._outage.end()
        try:
            return self._checked(said)
        except InvalidTokenError as exc:
            return exc

    def _checked(self, said: Claims) -> Claims:
        if said.get("active") is not True:
            raise InvalidTokenError("its issuer says that it is not active")
        kind = said.get("token_type", "bearer")
        if not isinstance(kind, str) or kind.lower() not in _KINDS:
            raise InvalidTokenError("it is a token for something else")
        if said.get("iss", self._issuer) != self._issuer:
            raise InvalidTokenError("its issuer is none of the hub's")
        if self._audience not in texts_in(said.get("aud")):
            raise InvalidTokenError("it is for another audience")
        check_claims(said, self._wanted, self._clock())
        return {**said, "iss": self._issuer}


_KINDS: Final = frozenset({"bearer", "access_token"})
"""Values of `token_type`; some issuers say which of their tokens it is (RFC 7662, 2.2)."""
