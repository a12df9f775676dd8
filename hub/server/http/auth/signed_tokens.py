"""Verifies JSON web tokens that issuers have signed for this hub (RFC 7519, RFC 8725, RFC 9068)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jwt
from msgspec import Struct, field

from hub.server.http.auth.admission import Admission, TokenRejection, invalid
from hub.server.http.auth.key_set import KeySet
from hub.server.http.auth.key_source import JsonWebKey, KeysUnavailableError
from hub.server.http.auth.profile_rules import texts_in
from hub.server.http.auth.protected_resource import ProtectedResource

MOST_CHARACTERS: Final = 16_384
SKEW: Final = 10
"""Seconds that the issuer's clock may differ."""
RECHECK: Final = 60.0
"""Seconds after which a verified token is verified again: its key may be gone."""
KEPT: Final = 10_000
"""How many verified tokens are remembered; at this number all are forgotten."""
_COMPACT: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
"""Header, claims and signature in base64url without padding (RFC 7515, 7.1)."""
_MOST_SUBJECT: Final = 255
_KINDS: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Values of `typ`. An ID token for a client has `JWT` too; the audience tells it from ours."""
_CLAIMS: Final = ("iss", "aud", "exp", "sub")


class Issuer(Struct, frozen=True):
    """Whose tokens are taken: for which audience, signed how, with which further claims."""

    name: str
    audience: str
    algorithms: tuple[str, ...]
    keys: KeySet
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class _Kept(Struct, frozen=True):
    admission: Admission
    keys: KeySet
    changes: int


class TokenVerifier:
    """Verifies tokens for a resource; `clock` gives seconds since 1970.

    A verified token counts without another look for `RECHECK` seconds at most, while its issuer's
    keys do not change, and never longer than it lasts.
    """

    def __init__(
        self, resource: ProtectedResource, issuers: Sequence[Issuer], clock: Callable[[], float]
    ) -> None:
        self.resource = resource
        self._issuers = {issuer.name: issuer for issuer in issuers}
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}

    @property
    def key_sets(self) -> list[KeySet]:
        """The keys of all issuers."""
        return [issuer.keys for issuer in self._issuers.values()]

    def known(self, token: bytes) -> Admission | None:
        """Return who sends a token that was verified lately; None if it has to be verified."""
        kept = self._kept.get(_digest(token))
        if kept is None or kept.changes != kept.keys.changes:
            return None
        return kept.admission if kept.admission.counts_at(self._clock) else None

    async def verify(self, token: bytes) -> Admission | TokenRejection:
        """Return who sends a token, or why it lets nobody in."""
        found = self.known(token)
        if found is not None:
            return found
        try:
            issuer, claims, changes = await self._verified(token)
        except _InvalidTokenError as exc:
            return invalid(str(exc))
        except KeysUnavailableError:
            text = "The keys of the token's issuer cannot be had now; try again later"
            return TokenRejection(503, "", text)
        missing = [scope for scope in self.resource.scopes if scope not in _scopes(claims)]
        if missing:
            text = f"The token lacks the scope {' '.join(missing)}"
            return TokenRejection(403, "insufficient_scope", text)
        expires = float(claims["exp"]) + SKEW
        recheck = min(expires, self._clock() + RECHECK)
        admission = Admission(f"{issuer.name} {claims['sub']}", recheck, expires, claims)
        if len(self._kept) >= KEPT:
            self._kept.clear()
        self._kept[_digest(token)] = _Kept(admission, issuer.keys, changes)
        return admission

    async def _verified(self, token: bytes) -> tuple[Issuer, dict[str, Any], int]:
        text = _text(token)
        header = _header(text)
        issuer = self._issuers.get(_issuer_in(text))
        if issuer is None:
            raise _InvalidTokenError("its issuer is none of the hub's")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
            raise _InvalidTokenError("its issuer signs in another way")
        key = await issuer.keys.find(_key_name(header))
        changes = issuer.keys.changes
        if key is None:
            raise _InvalidTokenError("its issuer has no such key")
        claims = self._claims(text, issuer, _public_key(key, algorithm), algorithm)
        return issuer, claims, changes

    def _claims(self, text: str, issuer: Issuer, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        try:
            claims = jwt.decode(
                text,
                key=key,
                algorithms=[algorithm],
                audience=issuer.audience,
                issuer=issuer.name,
                options={
                    "require": [*_CLAIMS],
                    # With the clock that is asked for everything else; see `_check_times`.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "enforce_minimum_key_length": True,
                },
            )
        except Exception as exc:  # noqa: BLE001 - strange keys and tokens raise what they like
            raise _InvalidTokenError(_why(exc)) from None
        _check_times(claims, self._clock())
        _check_subject(claims["sub"])
        for name, allowed in issuer.claims.items():
            if not set(texts_in(claims.get(name))) & set(allowed):
                raise _InvalidTokenError(f"the claim {name} is another one")
        return claims


class _InvalidTokenError(Exception):
    """A token that is not valid: the text says why, as a part of a sentence."""


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _text(token: bytes) -> str:
    if len(token) > MOST_CHARACTERS:
        raise _InvalidTokenError(f"it has over {MOST_CHARACTERS} characters")
    text = token.decode("latin-1")
    if not _COMPACT.fullmatch(text):
        raise _InvalidTokenError("it is no signed JSON web token")
    return text


def _header(text: str) -> dict[str, Any]:
    try:
        header = jwt.get_unverified_header(text)
    except Exception:  # noqa: BLE001 - anybody can send it
        raise _InvalidTokenError("its header cannot be read") from None
    kind = header.get("typ")
    if kind is not None and not (isinstance(kind, str) and kind.lower() in _KINDS):
        raise _InvalidTokenError("it is a token for something else")
    if {"crit", "b64", "cty", "zip", "enc"} & header.keys():
        raise _InvalidTokenError("its header asks for what the hub does not do")
    return header


def _key_name(header: Mapping[str, Any]) -> str | None:
    name = header.get("kid")
    if name is not None and (not isinstance(name, str) or not name):
        raise _InvalidTokenError("the id of its key is no text")
    return name


def _issuer_in(text: str) -> str:
    """Return the issuer that a token says it has; not verified yet."""
    try:
        claims = jwt.decode(text, options={"verify_signature": False})
    except Exception:  # noqa: BLE001 - as above
        raise _InvalidTokenError("its claims cannot be read") from None
    name = claims.get("iss")
    return name if isinstance(name, str) else ""


def _public_key(key: JsonWebKey, algorithm: str) -> jwt.PyJWK:
    if key.get("alg", algorithm) != algorithm:
        raise _InvalidTokenError("its key is for another algorithm")
    try:
        return jwt.PyJWK(key, algorithm)
    except Exception:  # noqa: BLE001 - as above
        raise _InvalidTokenError("its key cannot be used") from None


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    """Check when a token begins and ends (RFC 7519, 4.1.4 to 4.1.6)."""
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    for name, at in times.items():
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _FOR_EVER:
            raise _InvalidTokenError(f"{name} is no time")
    if times["exp"] + SKEW <= now:
        raise _InvalidTokenError("it has expired")
    if max(times.get("nbf", 0), times.get("iat", 0)) - SKEW > now:
        raise _InvalidTokenError("its time has not come yet")


_FOR_EVER: Final = 1 << 53


def _check_subject(subject: object) -> None:
    if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_SUBJECT:
        raise _InvalidTokenError("sub is no name")
    if not subject.isprintable():
        raise _InvalidTokenError("sub has characters that cannot be shown")


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """Return a token's scopes: `scope` (RFC 8693, 4.2), or `scp` as some issuers have it."""
    found = claims.get("scope", claims.get("scp"))
    return {one for text in texts_in(found) for one in text.split(" ") if one}


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
