"""An identity provider in memory, and an OAuth proxy before it with a person who logs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import httpx2

from hub.server.http.auth.admission import ProtectedResource
from hub.server.http.auth.issuer_metadata import KeySet
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.oauth_proxy.identity_provider import (
    IdentityProvider,
    IdTokens,
    ProviderClient,
    challenge_of,
)
from hub.server.http.oauth_proxy.proxy import OAuthProxy
from hub.server.http.oauth_proxy.tickets import HubTokens, Tickets
from hub.system.sealing import SealingSecrets
from tests.kit.fakes import FakeClock
from tests.server.http.auth.issuer import NAME, NOW, RESOURCE, token
from tests.server.http.auth.test_signed_tokens import ALGORITHMS, Keys

BROWSER = "b" * 43
CALLBACK = "http://127.0.0.1:9/callback"
VERIFIER = "v" * 43
SECRETS = SealingSecrets((b"k" * 32,))
METADATA: dict[str, Any] = {
    "issuer": NAME,
    "authorization_endpoint": f"{NAME}/authorize?tenant=ours",
    "token_endpoint": f"{NAME}/token",
    "authorization_response_iss_parameter_supported": True,
}


class Provider:
    """Answers as an identity provider; each code and its nonce count once."""

    def __init__(self) -> None:
        self.metadata = dict(METADATA)
        self.claims: dict[str, Any] = {"groups": ["staff"], "scope": None}
        self.given: dict[str, Any] = {"expires_in": 600, "refresh_token": "refresh-1"}
        self.codes: dict[str, str] = {}
        self.forms: list[dict[str, str]] = []
        self.authorization: str | None = None
        self.status = 200
        self.content: bytes | None = None
        self.is_down = False
        self.asked = 0
        self.under_way = 0
        self.most = 0
        self.answers: anyio.Event | None = None
        self.takes = 0.0

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if self.answers is not None:
                await self.answers.wait()
            await anyio.sleep(self.takes)
            return self._answer(request)
        finally:
            self.under_way -= 1

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_down:
            raise httpx2.ConnectError("nobody is there")
        if request.method == "GET":
            return httpx2.Response(200, json=self.metadata)
        if self.content is not None:
            return httpx2.Response(self.status, content=self.content)
        form = dict(parse_qsl(request.content.decode()))
        self.forms.append(form)
        self.authorization = request.headers.get("authorization")
        nonce = self.codes.pop(form["code"], None) if "code" in form else "refreshed"
        if nonce is None or self.status != 200:
            refused = self.status if self.status != 200 else 400
            return httpx2.Response(refused, json={"error": "invalid_grant"})
        own: dict[str, Any] = {"nonce": nonce} if "code" in form else {}
        return httpx2.Response(200, json={"id_token": self.id_token(**own), **self.given})

    def id_token(self, **own: Any) -> str:
        claims: dict[str, Any] = {"aud": "hub", "exp": NOW + 60, "at_hash": "x"}
        return token(**{**claims, **own, **self.claims})

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self), timeout=None)


class ProxyBench:
    """A proxy with its provider and clock, and what a client has to do."""

    def __init__(
        self, *, wanted: dict[str, tuple[str, ...]] | None = None, issuer: str = NAME
    ) -> None:
        self.clock = FakeClock(NOW)
        self.at = Provider()
        self.at.metadata["issuer"] = issuer
        client = ProviderClient("hub", "of the hub", ("email",), {"prompt": "consent"})
        provider = IdentityProvider(
            issuer, client, f"{RESOURCE}/oauth/callback", self.at.client, clock=self.clock
        )
        keys = KeySet(issuer, Keys("rsa-1"), self.clock)
        signed = SignedTokens([Issuer(issuer, "hub", ALGORITHMS, keys, wanted or {})], self.clock)
        id_tokens = IdTokens("hub", signed)
        supported = ("mcp:tools", "files:read", "files:write")
        resource = ProtectedResource(RESOURCE, (RESOURCE,), ("mcp:tools",), supported)
        self.tickets = Tickets(SECRETS, RESOURCE, issuer, self.clock)
        self.own = HubTokens(self.tickets, NAME, wanted or {})
        self.proxy = OAuthProxy(resource, provider, id_tokens, self.tickets, self.clock)

    def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token of the hub's."""
        found = self.own(token)
        assert found is not None
        return found

    def registered(self, *uris: str) -> str:
        """Return the id of a new client."""
        said = {"redirect_uris": list(uris or (CALLBACK,)), "client_name": "test"}
        return str(self.proxy.register(said)["client_id"])

    def asking(self, client_id: str, **more: str | None) -> dict[str, str]:
        """Return the query with which a client sends its user."""
        asked: dict[str, str | None] = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "state": "own state",
            "resource": RESOURCE,
            **more,
        }
        return {name: value for name, value in asked.items() if value is not None}

    async def at_provider(self, client_id: str, **more: str | None) -> dict[str, str]:
        """Return the query with which a person comes to the provider, after consent."""
        question = self.proxy.begin(self.asking(client_id, **more), BROWSER)
        place = await self.proxy.answered(question.ticket, BROWSER, is_allowed=True)
        return fields_of(place)

    def provider_answer(self, asked: dict[str, str], code: str = "code-1") -> dict[str, str]:
        """Return the query with which the provider sends a person back."""
        self.at.codes[code] = asked["nonce"]
        return {"code": code, "state": asked["state"], "iss": NAME}

    async def code(self, client_id: str, **more: str | None) -> str:
        """Return the code of a login that went well."""
        asked = await self.at_provider(client_id, **more)
        back = await self.proxy.came_back(self.provider_answer(asked), BROWSER)
        return fields_of(back)["code"]

    def redeeming(self, client_id: str, code: str, **more: str) -> dict[str, str]:
        """Return the form with which a client redeems a code."""
        return {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            "resource": RESOURCE,
            **more,
        }

    async def logged_in(self, **more: str | None) -> tuple[str, dict[str, Any]]:
        """Return a client's id, and the tokens that it has got."""
        client_id = self.registered()
        form = self.redeeming(client_id, await self.code(client_id, **more))
        return client_id, await self.proxy.tokens(form)


def fields_of(url: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}
