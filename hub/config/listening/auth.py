"""`listen.auth`: the issuers whose tokens let clients in."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from hub.config.fields import FieldError, Part, Secret, WebAddress, absolute_path, web_address
from hub.protocol.http_headers import is_private, origin_in

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
        raise FieldError("must begin with https://", "Without it the hub asks this machine alone.")
    if "#" in url or "?" in url or "@" in url:
        raise FieldError("has a user, a query or a fragment", "Write the address without it.")
    if not url.isprintable() or " " in url:
        raise FieldError("has a blank or a character that is not shown", "Take it out.")
    return url


def _as_clients_write_it(url: str) -> str:
    if url.endswith("/") and urlsplit(url).path != "/":
        fix = "Take it out: some clients compare the URL with their own, letter by letter."
        raise FieldError("has a slash at its end", fix)
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    plain = origin_in(origin) or origin
    if not url.startswith(f"{plain}/") and url != plain:
        fix = f"Write {plain}{parts.path}: clients write the host so, and compare letter by letter."
        raise FieldError("has capital letters in its host, or its scheme's usual port", fix)
    return url


def _keys(text: str, info: ValidationInfo) -> str:
    return _safe(web_address(text, info)) if "://" in text else absolute_path(text, info)


_OF_THE_PROTOCOL: Final = frozenset(
    {"client_id", "client_secret", "code_challenge", "code_challenge_method", "nonce"}
    | {"redirect_uri", "request", "request_uri", "response_mode", "response_type", "scope", "state"}
)


def _no_protocol(parameters: dict[str, str]) -> dict[str, str]:
    own = next((name for name in parameters if name in _OF_THE_PROTOCOL), None)
    if own is not None:
        raise FieldError(f"has {own}, which the hub sets", "Take it out.")
    return parameters


ClaimValues: TypeAlias = str | Annotated[tuple[str, ...], AfterValidator(_some)]
SafeAddress: TypeAlias = Annotated[WebAddress, AfterValidator(_safe)]
KeysAt: TypeAlias = Annotated[str, StringConstraints(min_length=1), AfterValidator(_keys)]
"""The URL of a key set, or a file."""


class Introspection(Part):
    """How the hub asks an authorization server about tokens that say nothing themselves."""

    client_id: Annotated[str, StringConstraints(min_length=1)]
    client_secret: Secret
    url: SafeAddress | None = None


class IssuerClient(Part):
    """The hub's own client at an issuer: people log in there for it."""

    client_id: Annotated[str, StringConstraints(min_length=1)]
    client_secret: Secret
    scopes: tuple[ScopeName, ...] = ()
    parameters: Annotated[dict[str, str], AfterValidator(_no_protocol)] = Field(
        default_factory=dict[str, str]
    )


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
    proxy: IssuerClient | None = None
    pages: IssuerClient | None = None

    @model_validator(mode="after")
    def _has_one_client(self) -> Self:
        if self.proxy is not None and self.pages is not None:
            what = "has proxy and pages"
            raise FieldError(what, "Take pages out: the pages use the client in proxy.")
        return self

    @property
    def client_of_pages(self) -> IssuerClient | None:
        """The client with which people show on the hub's pages who they are."""
        return self.proxy or self.pages

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
        raise FieldError(f"the issuer {twice} is there twice", "Take one of the two out.")
    return issuers


def _one_of_each(issuers: tuple[TrustedIssuer, ...]) -> tuple[TrustedIssuer, ...]:
    asked = [one.issuer for one in issuers if one.introspection is not None]
    if len(asked) > 1:
        what = f"{' and '.join(asked)} have introspection"
        fix = "An opaque token does not say who made it: keep introspection for one of them."
        raise FieldError(what, fix)
    proxied = [one.issuer for one in issuers if one.proxy is not None]
    if len(proxied) > 1:
        what = f"{' and '.join(proxied)} have proxy"
        fix = "Logins through the hub can go to one issuer alone: keep proxy for that one."
        raise FieldError(what, fix)
    return issuers


def united(*parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of all parts, each once, in their order."""
    return tuple(dict.fromkeys(scope for part in parts for scope in part))


class Auth(Part):
    """Tokens that authorization servers make for this hub."""

    resource: Annotated[SafeAddress, AfterValidator(_as_clients_write_it)]
    issuers: Annotated[
        tuple[TrustedIssuer, ...],
        AfterValidator(_some),
        AfterValidator(_different),
        AfterValidator(_one_of_each),
    ]
    scopes: tuple[ScopeName, ...] = ()

    @property
    def secrets(self) -> tuple[SecretStr, ...]:
        """The secrets that the hub asks issuers with."""
        parts = (part for one in self.issuers for part in (one.introspection, one.proxy, one.pages))
        return tuple(part.client_secret for part in parts if part is not None)
