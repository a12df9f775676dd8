"""Who somebody is that has opened a page: by a token of the config, or by a login at an issuer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hub.server.http.auth.admission import Admission
from hub.server.http.auth.credentials import Credentials
from hub.server.http.oauth_proxy.errors import RefusedGrantError
from hub.server.http.oauth_proxy.identity_provider import IdentityProvider, IdTokens
from hub.values import LOCAL


class IssuerLogin(Struct, frozen=True):
    """Where people of an issuer log in, and what verifies its ID tokens for the hub's client."""

    provider: IdentityProvider
    id_tokens: IdTokens

    @property
    def issuer(self) -> str:
        return self.provider.issuer

    async def principal(self, code: str, verifier: str, nonce: str) -> str:
        """Return the principal that has logged in with this code.

        Raises: OAuthError.
        """
        given = await self.provider.redeemed(code, verifier)
        claims = await self.id_tokens.claims(given, nonce=nonce)
        if claims is None:
            raise RefusedGrantError("the identity provider gives no ID token")
        return f"{claims['iss']} {claims['sub']}"


class KnownPeople:
    """The principals that can show who they are: of `credentials`, and of `issuers`."""

    def __init__(self, credentials: Credentials, issuers: Sequence[IssuerLogin]) -> None:
        self._credentials = credentials
        self.follow(issuers)

    def follow(self, issuers: Sequence[IssuerLogin]) -> None:
        """Know the people of these issuers alone from now on."""
        self.issuers = {one.issuer: one for one in issuers}

    @property
    def have_tokens(self) -> bool:
        """Whether some principals have a token of the config."""
        return bool(self._credentials.tokens)

    def with_token(self, token: str) -> str | None:
        """Return the principal with this token of the config; None if it lets nobody in now."""
        if not self.have_tokens:
            return None
        in_header = token.encode("utf-8", "surrogatepass").decode("latin-1")
        found = self._credentials.look_at(f"Bearer {in_header}")
        if not isinstance(found, Admission) or found.claims is not None:
            return None
        return found.principal

    def can_show(self, principal: str) -> bool:
        """Return whether a principal could show now who it is."""
        if self._of_issuer(principal):
            return True
        return principal != LOCAL and self._credentials.know(principal)

    def _of_issuer(self, principal: str) -> bool:
        issuer, blank, subject = principal.partition(" ")
        return bool(blank and subject) and issuer in self.issuers
