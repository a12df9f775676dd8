"""What the identity provider says of a person, in an ID token (OpenID Connect Core, 3.1.3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hub.server.http.auth.claims import InvalidTokenError
from hub.server.http.auth.issuer_metadata import IssuerUnavailableError
from hub.server.http.auth.signed_tokens import SignedTokens
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.identity_provider import ProviderTokens


class IdTokens:
    """Verifies ID tokens for the hub's client `client_id`; `signed` takes tokens for it alone."""

    def __init__(self, client_id: str, signed: SignedTokens) -> None:
        self._client_id = client_id
        self._signed = signed

    async def claims(self, given: ProviderTokens, *, nonce: str | None) -> Mapping[str, Any] | None:
        """Return the claims of the ID token; None without one. `nonce` None: it may have any.

        Raises: OAuthError.
        """
        if given.id_token is None:
            return None
        try:
            said = (await self._signed.verified(given.id_token)).claims
        except InvalidTokenError as exc:
            raise OAuthError("invalid_grant", f"the ID token does not let in: {exc}") from None
        except IssuerUnavailableError:
            text = "the identity provider cannot be asked now"
            raise OAuthError("temporarily_unavailable", text) from None
        if (nonce or said.get("nonce")) != said.get("nonce"):
            raise OAuthError("invalid_grant", "the ID token is of another login")
        if said.get("azp", self._client_id) != self._client_id:
            raise OAuthError("invalid_grant", "the ID token is for another client")
        return said
