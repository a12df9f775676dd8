"""The pages where principals log in, with people who have tokens and people of an issuer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from anyio.abc import TaskGroup

from hub.logins.login_process import LoginRuns
from hub.protocol.http_headers import token_hash
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.auth.issuer_metadata import KeySet
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.login_pages.steps import IssuerLogin, KnownPeople, LoginSteps
from hub.server.http.oauth_proxy.identity_provider import IdentityProvider, IdTokens, ProviderClient
from hub.server.http.oauth_proxy.tickets import TicketSealer
from hub.sessions.logins import ServerLogins
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.values import ServerName
from tests.kit.fakes import FakeClock
from tests.server.http.auth.issuer import NAME, NOW, RESOURCE
from tests.server.http.auth.test_signed_tokens import ALGORITHMS, Keys
from tests.server.http.oauth_proxy.provider import SECRETS, Provider, fields_of

FAR = ServerName("far")
TOKENS = {"anna": "rh_of-anna", "bob": "rh_of-bob"}
HERE, THERE = "h" * 43, "t" * 43
"""The cookies of two browsers."""


def spec(name: str, login: RemoteLogin | None) -> ServerSpec:
    target = RemoteTarget(f"http://127.0.0.1:9/{name}", login=login)
    return ServerSpec(ServerName(name), target)


class PageBench:
    """The steps, with their clock and provider; `without` is a principal without servers."""

    def __init__(
        self, tasks: TaskGroup, directory: Path, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.clock = FakeClock(NOW)
        self.at = Provider()
        client = ProviderClient("hub", "of the hub", (), {})
        provider = IdentityProvider(
            NAME, client, f"{RESOURCE}/oauth/callback", self.at.client, clock=self.clock
        )
        keys = KeySet(NAME, Keys("rsa-1"), self.clock)
        signed = SignedTokens([Issuer(NAME, "hub", ALGORITHMS, keys)], self.clock)
        hashes = {name: token_hash(token) for name, token in TOKENS.items()}
        self.credentials = Credentials(BearerTokens(None, hashes), clock=self.clock)
        people = KnownPeople(self.credentials, [IssuerLogin(provider, IdTokens("hub", signed))])
        self.specs = {
            one.name: one
            for one in (
                spec("far", RemoteLogin()),
                spec("shared", RemoteLogin(is_shared=True)),
                spec("open", None),
            )
        }
        self.without = ""
        self.tickets = TicketSealer(SECRETS, RESOURCE, self.clock)
        self.logins = ServerLogins(LoginRuns(tasks, environment, directory))
        self.steps = LoginSteps(RESOURCE, people, self.tickets, self.logins, self._specs_of)
        self.logins.pages = self.steps

    def _specs_of(self, principal: str) -> dict[ServerName, ServerSpec]:
        return {} if principal == self.without else self.specs

    def link_for(self, principal: str) -> str:
        """Return the ticket in a principal's link."""
        link = self.steps.link(FAR, principal)
        assert link is not None
        return fields_of(link)["ticket"]

    def visit(self, link: str | None = None, server: str = "far", browser: str = HERE) -> str:
        return self.steps.visited(server, link, browser).ticket

    async def at_issuer(self, name: str, ticket: str, browser: str = HERE) -> dict[str, str]:
        """Return the query with which the issuer sends the browser of `name` back."""
        asked = fields_of(await self.steps.at_issuer(ticket, NAME, browser))
        self.at.codes["code-1"] = asked["nonce"]
        self.at.claims["sub"] = name
        return {"code": "code-1", "state": asked["state"], "iss": NAME}
