"""Verifies JSON web tokens that issuers have signed for this hub (RFC 7519, RFC 8725, RFC 9068)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import jwt
from msgspec import Struct, field

from hub.server.http.auth.admission import InvalidTokenError, check_claims
from hub.server.http.auth.issuer_metadata import JsonWebKey, KeySet

_COMPACT: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
"""Header, claims and signature in base64url without padding (RFC 7515, 7.1)."""
_KINDS: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Values of `typ`. An ID token for a client has `JWT` too; the audience tells it from ours."""
MOST_TRIED: Final = 8
"""How many keys are tried for a token that may be of several: each takes time."""
_CLAIMS: Final = ("iss", "aud", "exp", "sub")


class Issuer(Struct, frozen=True):
    """Whose tokens are taken: for which audience, signed how, with which further claims."""

    name: str
    audience: str
    algorithms: tuple[str, ...]
    keys: KeySet
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class SignedClaims(Struct, frozen=True):
    """The claims of a verified token, and the keys that it was verified by.

    They hold while the `changes` of the `keys` stay the same.
    """

    claims: Mapping[str, Any]
    keys: KeySet
    changes: int


def has_signed_form(token: str) -> bool:
    """Return whether a token has the form of a signed JSON web token."""
    return _COMPACT.fullmatch(token) is not None


class SignedTokens:
    """Verifies the tokens of `issuers`; `clock` gives seconds since 1970."""

    def __init__(self, issuers: Sequence[Issuer], clock: Callable[[], float]) -> None:
        self._issuers = {issuer.name: issuer for issuer in issuers}
        self._clock = clock

    @property
    def issuers(self) -> frozenset[str]:
        """The names of the issuers."""
        return frozenset(self._issuers)

    @property
    def key_sets(self) -> list[KeySet]:
        """The keys of all issuers."""
        return [issuer.keys for issuer in self._issuers.values()]

    async def verified(self, token: str) -> SignedClaims:
        """Return the claims of a token.

        Raises: InvalidTokenError; IssuerUnavailableError if its key is not known, and its issuer
            cannot be asked.
        """
        if not has_signed_form(token):
            raise InvalidTokenError("it is not known here, and no signed JSON web token")
        header = _header(token)
        issuer = self._issuers.get(_issuer_in(token))
        if issuer is None:
            raise InvalidTokenError("its issuer is none of the hub's")
        algorithm = _algorithm_in(header, issuer)
        name = _key_name(header)
        while True:
            keys = await issuer.keys.find(name)
            changes = issuer.keys.changes
            try:
                claims = _signed_by_one(token, issuer, _fitting(keys, algorithm), algorithm)
            except _OtherKeyError:
                if name is None:  # it may be of a key that is new
                    await issuer.keys.refresh()
                if issuer.keys.changes == changes:
                    raise
            else:
                check_claims(claims, issuer.claims, self._clock())
                return SignedClaims(claims, issuer.keys, changes)


class _OtherKeyError(InvalidTokenError):
    """A token that none of the keys has signed."""


def _signed_by_one(
    text: str, issuer: Issuer, keys: Sequence[jwt.PyJWK], algorithm: str
) -> dict[str, Any]:
    """Return the claims of a token that one of the keys has signed. Raises: InvalidTokenError."""
    why = "its issuer has no such key"
    for key in keys:
        try:
            return _decoded(text, issuer, key, algorithm)
        except (jwt.InvalidSignatureError, jwt.InvalidKeyError) as exc:
            why = _why(exc)
        except Exception as exc:  # noqa: BLE001 - strange keys and tokens raise what they like
            raise InvalidTokenError(_why(exc)) from None
    raise _OtherKeyError(why)


def _decoded(text: str, issuer: Issuer, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
    return jwt.decode(
        text,
        key=key,
        algorithms=[algorithm],
        audience=issuer.audience,
        issuer=issuer.name,
        options={
            "require": [*_CLAIMS],
            # With the clock that is asked for everything else; see `check_claims`.
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "enforce_minimum_key_length": True,
        },
    )


def _header(text: str) -> dict[str, Any]:
    try:
        header = jwt.get_unverified_header(text)
    except Exception:  # noqa: BLE001 - anybody can send it
        raise InvalidTokenError("its header cannot be read") from None
    kind = header.get("typ")
    if kind is not None and not (isinstance(kind, str) and kind.lower() in _KINDS):
        raise InvalidTokenError("it is a token for something else")
    if {"crit", "b64", "cty", "zip", "enc"} & header.keys():
        raise InvalidTokenError("its header asks for what the hub does not do")
    return header


def _algorithm_in(header: Mapping[str, Any], issuer: Issuer) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise InvalidTokenError("its issuer signs in another way")
    return algorithm


def _key_name(header: Mapping[str, Any]) -> str | None:
    name = header.get("kid")
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidTokenError("the id of its key is no text")
    return name


def _issuer_in(text: str) -> str:
    """Return the issuer that a token says it has; not verified yet."""
    try:
        claims = jwt.decode(text, options={"verify_signature": False})
    except Exception:  # noqa: BLE001 - as above
        raise InvalidTokenError("its claims cannot be read") from None
    name = claims.get("iss")
    return name if isinstance(name, str) else ""


def _fitting(keys: Sequence[JsonWebKey], algorithm: str) -> list[jwt.PyJWK]:
    """Return the first `MOST_TRIED` of the keys that can be for an algorithm."""
    fitting: list[jwt.PyJWK] = []
    for key in keys:
        if len(fitting) < MOST_TRIED and key.get("alg", algorithm) == algorithm:
            with suppress(Exception):  # a key of another kind, or a strange one
                fitting.append(jwt.PyJWK(key, algorithm))
    return fitting


_WHY: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "its issuer is none of the hub's"),
    (jwt.InvalidAlgorithmError, "its issuer signs in another way"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidKeyError, "its key is too short"),
)


def _why(exc: Exception) -> str:
    if isinstance(exc, jwt.MissingRequiredClaimError):
        return f"it has no {exc.claim}"
    return next((why for kind, why in _WHY if isinstance(exc, kind)), "it cannot be read")
