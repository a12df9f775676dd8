"""A login to a remote server: what is wanted, and what came of it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

AuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]
"""How a client shows the authorization server who it is (RFC 7591, section 2)."""
EARLY: Final = 30.0
"""Seconds before its end that a token is renewed, or a fifth of its time where that is less."""


class LoginSettings(Struct, frozen=True):
    """What the config says of a login. `scopes` are asked for beside what the server names.

    `redirect` is where the browser comes back to; None for a login without that.
    """

    url: str
    redirect: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    client_metadata: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # it may have a secret


class RegisteredClient(Struct, frozen=True):
    """Who the hub is to one authorization server."""

    id: str
    secret: str | None = None
    method: AuthMethod = "none"

    def __repr__(self) -> str:
        return "RegisteredClient()"  # it has a secret


class Login(Struct, frozen=True):
    """The tokens for one server, and what is needed to renew them.

    `issuer` is the authorization server; `resource` is what the tokens are asked for (RFC 8707).
    `scope` is what was granted, `wanted` what the server has asked for since. `issued` and
    `expires` are in seconds since 1970; `expires` None: it is not known. `revocation_endpoint`
    None: the issuer has none, or the login was kept by a hub that did not look for it. `is_over`:
    the issuer gives no tokens for it any more. `owner` is the principal whose login it is; empty:
    this machine's user.
    """

    issuer: str
    token_endpoint: str
    client_id: str
    access_token: str
    issued: float
    expires: float | None = None
    refresh_token: str | None = None
    scope: str | None = None
    wanted: str | None = None
    resource: str | None = None
    client_secret: str | None = None
    auth_method: AuthMethod = "none"
    revocation_endpoint: str | None = None
    is_over: bool = False
    owner: str = ""

    @property
    def client(self) -> RegisteredClient:
        """Who the hub is to the issuer."""
        return RegisteredClient(self.client_id, self.client_secret, self.auth_method)

    def __repr__(self) -> str:
        return f"Login(issuer={self.issuer!r})"  # the other fields are secrets

    def is_of_use(self, now: float) -> bool:
        """Return whether the server can be used with it, as far as is known here."""
        return not self.is_over and (self.refresh_token is not None or not self.has_ended(now))

    def is_due(self, now: float) -> bool:
        """Return whether the access token has ended, or is about to."""
        if self.expires is None:
            return False
        return now >= self.expires - min(EARLY, (self.expires - self.issued) / 5)

    def has_ended(self, now: float) -> bool:
        """Return whether the access token has ended."""
        return self.expires is not None and now >= self.expires
