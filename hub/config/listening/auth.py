"""`listen.auth`: the issuers whose tokens let clients in."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, ValidationInfo

from hub.config.fields import FieldError, Part, Secret, WebAddress, absolute_path, web_address
from hub.protocol.host_names import is_private

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Signatures with a public key. With a shared secret the hub could make tokens itself."""
ValueT = TypeVar("ValueT")
ScopeName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[!#-\[\]-~]+$", max_length=128)]
"""A scope (RFC 6749, 3.3)."""


def _some(values: tuple[ValueT, ...]) -> tuple[ValueT, ...]:
    if not values:
        raise FieldError("is an empty list", "Name one, or take the key out.")
    return values


def _safe(url: str) -> str:
    if not is_private(url):
        raise FieldError("must begin with https://", "Only this machine is asked without.")
    if "#" in url or "?" in url or "@" in url:
        raise FieldError("has a user, a query or a fragment", "Write the address without it.")
    if not url.isprintable() or " " in url:
        raise FieldError("has a blank or a character that is not shown", "Take it out.")
    return url


def _keys(text: str, info: ValidationInfo) -> str:
    return _safe(web_address(text, info)) if "://" in text else absolute_path(text, info)


ClaimValues: TypeAlias = str | Annotated[tuple[str, ...], AfterValidator(_some)]
SafeAddress: TypeAlias = Annotated[WebAddress, AfterValidator(_safe)]
KeysAt: TypeAlias = Annotated[str, StringConstraints(min_length=1), AfterValidator(_keys)]
"""The URL of a key set, or a file."""


class Introspection(Part):
    """How the hub asks an authorization server about tokens that say nothing themselves."""

    client_id: Annotated[str, StringConstraints(min_length=1)]
    client_secret: Secret
    url: SafeAddress | None = None


class TrustedIssuer(Part):
    """An authorization server: its tokens for `audience` let clients in."""

    issuer: SafeAddress
    audience: Annotated[str, StringConstraints(min_length=1)] | None = None
    jwks: KeysAt | None = None
    algorithms: Annotated[tuple[Algorithm, ...], AfterValidator(_some)] = (
        "RS256",
        "PS256",
        "ES256",
        "EdDSA",
    )
    claims: dict[str, ClaimValues] = Field(default_factory=dict[str, ClaimValues])
    introspection: Introspection | None = None

    @property
    def wanted_claims(self) -> dict[str, tuple[str, ...]]:
        """The claims that a token must have, each with the values that will do."""
        return {
            name: (value,) if isinstance(value, str) else value
            for name, value in self.claims.items()
        }


def _different(issuers: tuple[TrustedIssuer, ...]) -> tuple[TrustedIssuer, ...]:
    names = [one.issuer for one in issuers]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise FieldError(f"the issuer {twice} stands twice", "Take one of the two out.")
    return issuers


def _asks_one(issuers: tuple[TrustedIssuer, ...]) -> tuple[TrustedIssuer, ...]:
    asked = [one.issuer for one in issuers if one.introspection is not None]
    if len(asked) > 1:
        what = f"{' and '.join(asked)} have introspection"
        fix = "Nothing says which of them an opaque token is from: keep it for one of them."
        raise FieldError(what, fix)
    return issuers


class Auth(Part):
    """Tokens that authorization servers make for this hub."""

    resource: SafeAddress
    issuers: Annotated[
        tuple[TrustedIssuer, ...],
        AfterValidator(_some),
        AfterValidator(_different),
        AfterValidator(_asks_one),
    ]
    scopes: tuple[ScopeName, ...] = ()

    @property
    def secrets(self) -> tuple[SecretStr, ...]:
        """The secrets that the hub asks issuers with."""
        asked = (one.introspection for one in self.issuers)
        return tuple(one.client_secret for one in asked if one is not None)
