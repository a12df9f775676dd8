"""Access tokens that the hub itself gives, to clients whose users have logged in through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hub.server.http.auth.claims import InvalidTokenError, check_subject, check_wanted
from hub.server.http.auth.token_verifier import MOST_CHARACTERS
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.tickets import AccessTicket, Tickets

PREFIX: Final = "rht_"
"""By which tokens of the hub are known; programs that look for leaked secrets can know them too."""


def new_token(tickets: Tickets, claims: Mapping[str, Any], scope: str, *, until: float) -> str:
    """Return an access token for a person with these claims, and the scopes in `scope` alone.

    Raises: OAuthError if it would be longer than the hub takes.
    """
    said = {**claims, "exp": until, "scope": scope}
    token = f"{PREFIX}{tickets.seal(AccessTicket(said, until))}"
    if len(token) > MOST_CHARACTERS:
        text = "the ID token says too much for an access token: ask the provider for fewer claims"
        raise OAuthError("server_error", text)
    return token


class HubTokens:
    """Verifies the hub's own tokens: of people of `issuer` who have the `wanted` claims."""

    def __init__(
        self, tickets: Tickets, issuer: str, wanted: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._tickets = tickets
        self._issuer = issuer
        self._wanted = wanted

    def has_form(self, token: str) -> bool:
        """Return whether a token looks like one of the hub's."""
        return token.startswith(PREFIX)

    def verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token.

        Raises: InvalidTokenError.
        """
        ticket = self._tickets.open(token.removeprefix(PREFIX), AccessTicket)
        if ticket is None:
            raise InvalidTokenError("it is none of the hub's, or has ended")
        if ticket.claims.get("iss") != self._issuer:
            raise InvalidTokenError("its issuer is none of the hub's")
        check_subject(ticket.claims)
        check_wanted(ticket.claims, self._wanted)
        return ticket.claims
