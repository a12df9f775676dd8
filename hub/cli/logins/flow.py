"""The login at one server: the SDK's OAuth client, and what it does not refuse by itself.

MCP 2025-11-25 and 2026-07-28, "Authorization"; OAuth 2.1; RFC 7636 (PKCE), 8414, 8707, 9207, 9728.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import issuers_match, union_scopes, validate_authorization_response_iss
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

from hub import __version__
from hub.errors import HubError
from hub.logins.login import AuthMethod, Login, LoginSettings, RegisteredClient
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.protocol.http_headers import is_private
from hub.values import JsonObject

TIMEOUT: Final = 30.0
"""Seconds that a server may take for one answer."""
_METHODS: Final[dict[str | None, AuthMethod]] = {
    "client_secret_basic": "client_secret_basic",
    "client_secret_post": "client_secret_post",
}

OpenPage = Callable[[str], Awaitable[None]]
ComeBack = Callable[[], Awaitable[AuthorizationCodeResult]]


class LoginFailedError(HubError):
    """The login did not come to its end; the text says why. `fix`: what to do but to try again."""

    def __init__(self, why: str, fix: str | None = None) -> None:
        super().__init__(why)
        self.fix = fix


class RefusedLoginError(LoginFailedError):
    """The authorization server has refused the login; `iss` is the issuer that it says it is."""

    def __init__(self, why: str, iss: str | None) -> None:
        super().__init__(why)
        self.iss = iss


def with_granted(scopes: Sequence[str], kept: Login | None) -> tuple[str, ...]:
    """Return the scopes to ask for: where the server wants more, all that was granted as well."""
    granted = f"{kept.scope or ''} {kept.wanted}" if kept is not None and kept.wanted else ""
    return tuple(dict.fromkeys((*scopes, *granted.split())))


class _Kept:
    """What the SDK's client stores: here it lasts as long as the login."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class ServerLogin(OAuthClientProvider):
    """The flow of one login. The issuer in `settings` gets its credentials, and no other does.

    `about` is what a registration says beside who the client is. A subclass has the grant.
    """

    def __init__(
        self,
        settings: LoginSettings,
        about: JsonObject,
        open_page: OpenPage | None = None,
        come_back: ComeBack | None = None,
    ) -> None:
        self._settings = settings
        self._kept = _Kept(_registered(settings))
        is_of_web = (settings.redirect or "").startswith("https://")
        client = OAuthClientMetadata.model_validate(
            {
                "client_name": "roots-hub",
                "software_id": "roots-hub",
                "software_version": __version__,
                "redirect_uris": None if settings.redirect is None else [settings.redirect],
                "token_endpoint_auth_method": "none",
                # Some take no other redirect URIs (OpenID Connect Registration, 2).
                "application_type": "web" if is_of_web else "native",
                **about,
            }
        )
        super().__init__(
            settings.url, client, self._kept, open_page, come_back, settings.client_metadata
        )

    def _select_authorization_server(self, advertised: list[str]) -> str:
        wanted = self._settings.issuer
        if wanted is None:
            return advertised[0]
        for one in advertised:
            if issuers_match(one, wanted):
                return one
        raise OAuthFlowError(
            f"it names another authorization server than auth.issuer: {advertised[0]}"
        )

    def _expected_issuer(self) -> str:
        found = super()._expected_issuer()
        wanted = self._settings.issuer
        if wanted is not None and not issuers_match(found, wanted):
            raise OAuthFlowError(f"it has another authorization server than auth.issuer: {found}")
        return found

    def _prepared(self) -> OAuthMetadata:
        """Add the scopes in the settings; return the metadata of a fitting authorization server."""
        asked = self.context.client_metadata
        asked.scope = union_scopes(asked.scope, " ".join(self._settings.scopes))
        found = self.context.oauth_metadata
        if found is None:
            raise OAuthFlowError("its authorization server has no metadata (RFC 8414)")
        must_be_protected(str(found.token_endpoint))
        return found

    @property
    def has_tokens(self) -> bool:
        """Whether the login came to its end."""
        return self._kept.tokens is not None

    @property
    def client(self) -> RegisteredClient:
        """Who the hub is to the authorization server, once that is known."""
        found = self.context.client_info
        if found is None:
            raise OAuthFlowError("the hub has no client id at its authorization server")
        method = _METHODS.get(found.token_endpoint_auth_method, "none")
        return RegisteredClient(found.client_id, found.client_secret, method)

    def result(self, now: float) -> Login | None:
        """Return what came of the flow; None if the server did not ask for a login."""
        tokens, found = self._kept.tokens, self.context.oauth_metadata
        if tokens is None or found is None:
            return None
        client = self.client
        revocation = found.revocation_endpoint
        return Login(
            issuer=str(found.issuer),
            token_endpoint=str(found.token_endpoint),
            client_id=client.id,
            access_token=tokens.access_token,
            issued=now,
            expires=None if tokens.expires_in is None else now + tokens.expires_in,
            refresh_token=tokens.refresh_token,
            scope=tokens.scope,
            resource=self.context.get_resource_url(),
            client_secret=client.secret,
            auth_method=client.method,
            revocation_endpoint=None if revocation is None else str(revocation),
        )


class BrowserLogin(ServerLogin):
    """A login in a browser that comes back with a code, with PKCE."""

    def __init__(self, settings: LoginSettings, open_page: OpenPage, come_back: ComeBack) -> None:
        super().__init__(settings, {}, open_page, self._answer)
        self._come_back = come_back

    async def _answer(self) -> AuthorizationCodeResult:
        try:
            return await self._come_back()
        except RefusedLoginError as exc:
            # Whose it is comes first (RFC 9207): another's words are not shown.
            validate_authorization_response_iss(exc.iss, self.context.oauth_metadata)
            raise

    async def _perform_authorization(self) -> httpx2.Request:
        found = self._prepared()
        if "S256" not in (found.code_challenge_methods_supported or ()):
            raise OAuthFlowError("its authorization server does not offer PKCE with S256")
        must_be_protected(str(found.authorization_endpoint))
        return await super()._perform_authorization()


def must_be_protected(url: str) -> None:
    """Check that what goes to an address is read by nobody on the way. Raises: OAuthFlowError."""
    if not is_private(url):
        raise OAuthFlowError(f"{url} does not begin with https://")


def _registered(settings: LoginSettings) -> OAuthClientInformationFull | None:
    """Return the client that the operator has registered; None to register one."""
    if settings.client_id is None:
        return None
    method = "none" if settings.client_secret is None else "client_secret_basic"
    return OAuthClientInformationFull.model_validate(
        {
            "client_id": settings.client_id,
            "client_secret": settings.client_secret,
            "token_endpoint_auth_method": method,
            "redirect_uris": None if settings.redirect is None else [settings.redirect],
            "issuer": settings.issuer,
        }
    )


async def log_in(
    flow: ServerLogin, clock: Callable[[], float], way: httpx2.AsyncBaseTransport | None = None
) -> Login:
    """Log in at a server, and return what came of it. Raises: LoginFailedError."""
    door = _Door(str(flow.context.server_url), way or httpx2.AsyncHTTPTransport())
    try:
        async with httpx2.AsyncClient(auth=flow, timeout=TIMEOUT, transport=door) as http:
            await _knock(http, flow, door)
    except httpx2.RequestError as exc:
        raise LoginFailedError(f"{exc.request.url.netloc.decode()}: {_said(exc)}") from exc
    except (OAuthFlowError, httpx2.HTTPError, ValueError) as exc:
        raise LoginFailedError(_said(exc)) from exc
    login = flow.result(clock())
    if login is None:
        raise LoginFailedError("it asks for no login")
    return login


class _Door(httpx2.AsyncBaseTransport):
    """The way to the server, and to nobody else but over https (this machine excepted).

    `is_shut`: the next request without a token is refused right here.
    """

    def __init__(self, server: str, way: httpx2.AsyncBaseTransport) -> None:
        self._origin = _origin(httpx2.URL(server))
        self._way = way
        self.is_shut = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_shut and "authorization" not in request.headers:
            self.is_shut = False
            return httpx2.Response(401, request=request)
        if _origin(request.url) != self._origin:
            must_be_protected(str(request.url))
        return await self._way.handle_async_request(request)

    async def aclose(self) -> None:
        await self._way.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _knock(http: httpx2.AsyncClient, flow: ServerLogin, door: _Door) -> None:
    """Make requests until the server asks for a login; some only do for a call, in one era."""
    url, legacy = str(flow.context.server_url), dict(_LEGACY)
    async with http.stream("POST", url, json=_INITIALIZE, headers=legacy) as response:
        if id_ := response.headers.get("mcp-session-id"):
            legacy["mcp-session-id"] = id_
    for headers, body in ((legacy, _LIST), (_MODERN, _MODERN_LIST)):
        if not flow.has_tokens:
            async with http.stream("POST", url, json=body, headers=headers):
                pass
    if not flow.has_tokens:
        door.is_shut = True
        async with http.stream("POST", url, json=_LIST, headers=legacy):
            pass


_VERSION: Final = HANDSHAKE_VERSIONS[-1]
_ACCEPT: Final = {"accept": "application/json, text/event-stream"}
_LEGACY: Final = {**_ACCEPT, "mcp-protocol-version": _VERSION}
_MODERN: Final = {
    **_ACCEPT,
    "mcp-protocol-version": MODERN_VERSIONS[-1],
    "mcp-method": "tools/list",
}
_SELF: Final[JsonObject] = {"name": "roots-hub", "version": __version__}
_INITIALIZE: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": _SELF},
}
_LIST: Final[JsonObject] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
_MODERN_LIST: Final[JsonObject] = {
    **_LIST,
    "params": {
        "_meta": {
            PROTOCOL_VERSION_META: MODERN_VERSIONS[-1],
            CLIENT_CAPABILITIES_META: {},
            CLIENT_INFO_META: _SELF,
        }
    },
}


def _said(exc: Exception) -> str:
    text = str(exc).partition("\n")[0] or type(exc).__name__
    return text[:300]
