"""The steps of a login: a client's request, consent, the way back, and the tokens."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import structlog
from msgspec import Struct, structs

from hub.server.http.auth.admission import ProtectedResource
from hub.server.http.oauth_proxy.errors import OAuthError, RefusedGrantError
from hub.server.http.oauth_proxy.identity_provider import (
    IdentityProvider,
    IdTokens,
    ProviderTokens,
    challenge_of,
)
from hub.server.http.oauth_proxy.tickets import (
    LoginCode,
    LoginRequest,
    PendingLogin,
    ProxiedClient,
    RefreshTicket,
    Tickets,
    client_in,
    hash_of,
    is_hash_of,
    new_token,
    registered,
)

PATIENCE: Final = 600.0
"""Seconds that a person may take for consent, and again at the identity provider."""
CODE_LASTS: Final = 60.0
"""Seconds within which a client redeems its code."""
ACCESS_LASTS: Final = 3600.0
"""Seconds that an access token lasts at most: then the provider is asked again."""
REFRESH_LASTS: Final = 30 * 86_400.0
"""Seconds after which somebody who was not here logs in again."""
_OF_ONE_LOGIN: Final = frozenset(
    {"acr", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "exp", "iat", "jti", "nbf"}
    | {"nonce", "rh", "s_hash", "sid", "uti", "ver"}
)
"""Claims of an ID token that say nothing of the person."""

log = structlog.stdlib.get_logger(__name__)


class ConsentQuestion(Struct, frozen=True):
    """What a person is asked: may this client use the hub? `ticket` comes with the answer.

    `scopes` are what it asks for beside what every client gets.
    """

    client: ProxiedClient
    redirect_uri: str
    ticket: str
    scopes: tuple[str, ...] = ()


class OAuthProxy:
    """The hub `resource` as authorization server; people log in at `provider`.

    `id_tokens` verifies what the provider says of them. `clock` gives seconds since 1970. Methods
    raise OAuthError for what is refused; `browser` is the value of a cookie.
    """

    def __init__(
        self,
        resource: ProtectedResource,
        provider: IdentityProvider,
        id_tokens: IdTokens,
        tickets: Tickets,
        clock: Callable[[], float],
    ) -> None:
        self.resource = resource
        self.provider = provider
        self._id_tokens = id_tokens
        self._tickets = tickets
        self._clock = clock

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the authorization server (RFC 8414, section 2)."""
        url = self.resource.url.rstrip("/")
        told: dict[str, Any] = {
            "issuer": self.resource.url,
            "authorization_endpoint": f"{url}/oauth/authorize",
            "token_endpoint": f"{url}/oauth/token",
            "registration_endpoint": f"{url}/oauth/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
        return {**told, **self.resource.scopes_supported}

    def register(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a client that registers itself."""
        client = client_in(body, self._clock())
        return registered(self._tickets.id_of(client), client)

    # A client's request, in a browser

    def begin(self, query: Mapping[str, str], browser: str) -> ConsentQuestion:
        """Return what to ask the person whom a client has sent here.

        Anybody can register a client: before consent nobody is sent to where it says.
        """
        client = self._client_of(query)
        uris = client.redirect_uris
        uri = query.get("redirect_uri") or (uris[0] if len(uris) == 1 else "")
        if not client.takes(uri):
            raise OAuthError("invalid_request", "The client has not registered this redirect URI")
        challenge = self._challenge_in(query)
        until = self._clock() + PATIENCE
        client_id, browser = hash_of(query["client_id"]), hash_of(browser)
        scopes, state = self._particular(query.get("scope")), query.get("state")
        request = LoginRequest(client_id, uri, challenge, state, browser, scopes, until=until)
        return ConsentQuestion(client, uri, self._tickets.seal(request), scopes)

    def _particular(self, asked: str | None) -> tuple[str, ...]:
        """Return which of the scopes that are asked for a token has only if it is asked for them.

        All tokens have the general ones, as nothing can be done without. What nobody needs is left
        out, and the answer says so (RFC 6749, 3.3).
        """
        names = dict.fromkeys((asked or "").split(" "))
        general, known = self.resource.scopes, self.resource.supported
        return tuple(one for one in names if one in known and one not in general)

    def _client_of(self, asked: Mapping[str, str]) -> ProxiedClient:
        client = self._tickets.client(asked.get("client_id", ""))
        if client is None:
            raise OAuthError("invalid_client", "This hub does not know the client: register again")
        return client

    def _challenge_in(self, query: Mapping[str, str]) -> str:
        if query.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type must be code")
        challenge = query.get("code_challenge", "")
        if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
            raise OAuthError("invalid_request", "PKCE with S256 is needed")
        self._check_resource(query)
        return challenge

    def _check_resource(self, asked: Mapping[str, str]) -> None:
        resource = asked.get("resource")
        if resource is not None and resource.rstrip("/") != self.resource.url.rstrip("/"):
            raise OAuthError("invalid_target", f"the hub gives tokens for {self.resource.url} only")

    async def answered(self, ticket: str, browser: str, *, is_allowed: bool) -> str:
        """Return where the browser goes on after a person has answered."""
        request = self._tickets.open(ticket, LoginRequest)
        if request is None or not is_hash_of(browser, request.browser):
            raise OAuthError("invalid_request", "This login has ended: begin it again")
        if not is_allowed:
            return self._back(request.redirect_uri, request.state, {"error": "access_denied"})
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        login = PendingLogin(request, verifier, nonce, until=self._clock() + PATIENCE)
        state = self._tickets.seal(login)
        return await self.provider.login_url(state=state, verifier=verifier, nonce=nonce)

    async def came_back(self, query: Mapping[str, str], browser: str) -> str:
        """Return where the browser goes on that comes from the identity provider."""
        login = self._tickets.open(query.get("state", ""), PendingLogin)
        if login is None or not is_hash_of(browser, login.request.browser):
            raise OAuthError("invalid_request", "This login has ended: begin it again")
        await self.provider.check_answer(query.get("iss"))
        uri, state = login.request.redirect_uri, login.request.state
        if not query.get("code"):
            error = "access_denied" if query.get("error") == "access_denied" else "server_error"
            text = "the identity provider has refused the login"
            return self._back(uri, state, {"error": error, "error_description": text})
        code = LoginCode(query["code"], login, until=self._clock() + CODE_LASTS)
        return self._back(uri, state, {"code": self._tickets.seal(code)})

    def _back(self, uri: str, state: str | None, said: dict[str, str]) -> str:
        """Return the way back to a client (RFC 6749, 4.1.2; RFC 9207)."""
        fields = said | ({} if state is None else {"state": state}) | {"iss": self.resource.url}
        return f"{uri}{'&' if '?' in uri else '?'}{urlencode(fields)}"

    # Tokens

    async def tokens(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of the token endpoint (RFC 6749, 5.1)."""
        self._check_resource(form)
        grant = form.get("grant_type")
        if grant in {"authorization_code", "refresh_token"}:
            # Where the hub has another key by now, this is what tells clients to register again.
            self._client_of(form)
        match grant:
            case "authorization_code":
                return await self._for_code(form)
            case "refresh_token":
                return await self._for_refresh_token(form)
            case _:
                text = "grant_type must be authorization_code or refresh_token"
                raise OAuthError("unsupported_grant_type", text)

    async def _for_code(self, form: Mapping[str, str]) -> dict[str, Any]:
        code = self._tickets.open(form.get("code", ""), LoginCode)
        if code is None:
            raise OAuthError("invalid_grant", "the code is none, or has ended")
        request = code.login.request
        uri = form.get("redirect_uri", request.redirect_uri)
        if not is_hash_of(form.get("client_id", ""), request.client) or uri != request.redirect_uri:
            raise OAuthError("invalid_grant", "the code is another client's")
        if not hmac.compare_digest(challenge_of(form.get("code_verifier", "")), request.challenge):
            raise OAuthError("invalid_grant", "code_verifier is wrong")
        given = await self.provider.redeemed(code.code, code.login.verifier)
        said = await self._id_tokens.claims(given, nonce=code.login.nonce)
        if said is None:
            raise RefusedGrantError("the identity provider gives no ID token")
        claims = _of_person(said)
        log.info("a client was let in by its user's login", principal=claims["sub"])
        token, client, scopes = given.refresh_token or "", request.client, request.scopes
        ticket = RefreshTicket(token, client, claims, scopes, until=self._clock())
        return self._issued(given, ticket, scopes)

    async def _for_refresh_token(self, form: Mapping[str, str]) -> dict[str, Any]:
        ticket = self._tickets.open(form.get("refresh_token", ""), RefreshTicket)
        if ticket is None or not is_hash_of(form.get("client_id", ""), ticket.client):
            raise OAuthError("invalid_grant", "the refresh token is none, or has ended")
        scopes = ticket.scopes
        if form.get("scope"):
            scopes = self._particular(form["scope"])
            if not set(scopes) <= set(ticket.scopes):
                raise OAuthError("invalid_scope", "the person has not agreed to all these scopes")
        given = await self.provider.refreshed(ticket.token)
        said = await self._id_tokens.claims(given, nonce=None)
        claims = ticket.claims if said is None else _of_person(said)
        if claims["sub"] != ticket.claims["sub"]:
            raise RefusedGrantError("the refresh token is another person's")
        again = structs.replace(ticket, token=given.refresh_token or ticket.token, claims=claims)
        return self._issued(given, again, scopes)

    def _issued(
        self, given: ProviderTokens, ticket: RefreshTicket, scopes: Iterable[str]
    ) -> dict[str, Any]:
        """Return the tokens for a person; `ticket` is what gets the next ones, if it has a token.

        `scopes` are those of this access token beside the general ones.
        """
        lasts = min(ACCESS_LASTS, given.expires_in or ACCESS_LASTS)
        resource, now = self.resource, self._clock()
        particular = [one for one in scopes if one in resource.supported]
        scope = " ".join(dict.fromkeys((*resource.scopes, *particular)))
        answer: dict[str, Any] = {
            "access_token": new_token(self._tickets, ticket.claims, scope, until=now + lasts),
            "token_type": "Bearer",
            "expires_in": int(lasts),
        }
        if scope:
            answer["scope"] = scope
        if ticket.token:
            again = structs.replace(ticket, until=now + REFRESH_LASTS)
            answer["refresh_token"] = self._tickets.seal(again)
        return answer


def _of_person(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in claims.items() if name not in _OF_ONE_LOGIN}


_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 in base64url."""
