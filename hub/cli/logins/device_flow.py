"""The login at one server by a code for another device: the SDK's client with that grant."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Final

import httpx2
import msgspec
from msgspec import Struct

from hub.cli.logins.device_grant import GRANT, Clock, DeviceCode, DeviceGrant, Sleep
from hub.cli.logins.flow import LoginFailedError, LoginWish, ServerLogin, must_be_protected
from hub.logins.issuer_requests import OK
from hub.values import JsonObject

Show = Callable[[DeviceCode], None]
_ABOUT: Final[JsonObject] = {"grant_types": [GRANT, "refresh_token"], "response_types": []}


class _Endpoint(Struct, frozen=True):
    """What the SDK does not read of an authorization server's metadata."""

    device_authorization_endpoint: str | None = None


class DeviceLogin(ServerLogin):
    """A login whose browser is on another device. It has no redirect, and so no PKCE."""

    def __init__(
        self,
        wish: LoginWish,
        show: Show,
        *,
        clock: Clock,
        sleep: Sleep,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        super().__init__(wish, _ABOUT)
        self._show = show
        self._clock = clock
        self._sleep = sleep
        self._http = http
        self._document = b""
        self._granted: httpx2.Response | None = None

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the SDK's flow, and give it the tokens that were asked for with requests of its own.

        The last document before there is metadata is what the SDK's client has made that from.
        """
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if self._granted is not None and outgoing is self._granted.request:
                    response = self._granted
                else:
                    response = yield outgoing
                    if outgoing is not request and self.context.oauth_metadata is None:
                        self._document = await response.aread()
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _perform_authorization(self) -> httpx2.Request:
        found = self._prepared()
        endpoint = _endpoint_in(self._document)
        if endpoint is None:
            what = "its authorization server gives no codes for other devices (RFC 8628)"
            fix = "Use `--paste` in place of `--device`: a browser on any machine will do."
            raise LoginFailedError(what, fix)
        must_be_protected(endpoint)
        grant = DeviceGrant(
            self.client,
            self.context.get_resource_url(),
            clock=self._clock,
            sleep=self._sleep,
            http=self._http,
        )
        code = await grant.code(endpoint, self.context.client_metadata.scope)
        self._show(code)
        place = str(found.token_endpoint)
        tokens = await grant.tokens(place, code)
        asked = httpx2.Request("POST", place)
        self._granted = httpx2.Response(OK, content=tokens, request=asked)
        return asked


def _endpoint_in(document: bytes) -> str | None:
    try:
        return msgspec.json.decode(document, type=_Endpoint).device_authorization_endpoint
    except msgspec.MsgspecError:
        return None
