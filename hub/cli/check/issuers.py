"""`check --connect`: ask the issuers of `listen.auth` whatever a running hub will ask them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_urlsafe

import anyio
from msgspec import Struct

from hub.app.issuers import introspection_endpoint, key_source, login_provider
from hub.cli.output import BAD, GOOD, Steps, counted, painted
from hub.config.listening.auth import Auth, TrustedIssuer
from hub.legible import legible
from hub.server.http.auth.issuer_metadata import IssuerUnavailableError


class IssuerCheck(Struct, frozen=True):
    """What an issuer has said: how many `keys` it has, and what went wrong, key by key."""

    issuer: str
    keys: int = 0
    problems: tuple[str, ...] = ()

    def text(self) -> str:
        """Return it as lines for people."""
        if self.problems:
            return painted(legible("\n".join(self.problems)), BAD)
        return painted(counted(self.keys, "key"), GOOD)


async def issuer_answers(auth: Auth, steps: Steps) -> list[IssuerCheck]:
    """Ask the issuers side by side; return what each said, in the order of the config."""
    found: dict[str, IssuerCheck] = {}
    async with anyio.create_task_group() as tasks:
        for at, one in enumerate(auth.issuers):
            steps.begin(one.issuer, "asking")
            tasks.start_soon(partial(_ask, auth, one, f"listen.auth.issuers[{at}]", steps), found)
    return [found[one.issuer] for one in auth.issuers]


async def _ask(
    auth: Auth, one: TrustedIssuer, at: str, steps: Steps, found: dict[str, IssuerCheck]
) -> None:
    keys, problems = 0, list[str]()
    async with _noting(problems, f"{at}.jwks" if one.jwks else f"{at}.issuer"):
        keys = len(await key_source(one)())
        if not keys and one.introspection is None:
            problems.append(f"{at}.issuer: {one.issuer} has no keys that sign")
    if one.introspection is not None:
        endpoint = introspection_endpoint(one, one.introspection)
        async with _noting(problems, f"{at}.introspection"):
            try:
                said = await endpoint(token_urlsafe(16))
            finally:
                await endpoint.aclose()
            if said.get("active") is not False:
                problems.append(f"{at}.introspection: an unknown token is not refused")
    client = one.client_of_pages
    if client is not None:
        provider = login_provider(auth.resource, one, client)
        async with _noting(problems, f"{at}.{'pages' if one.proxy is None else 'proxy'}"):
            await provider.try_out()
    found[one.issuer] = answer = IssuerCheck(one.issuer, keys, tuple(problems))
    steps.end(one.issuer, answer.text())


@asynccontextmanager
async def _noting(problems: list[str], where: str) -> AsyncGenerator[None]:
    try:
        yield
    except IssuerUnavailableError as exc:
        advice = ": is client_secret right?" if "HTTP status 401" in str(exc) else ""
        problems.append(f"{where}: {exc}{advice}")
