"""What is checked of a token's claims, whether an issuer has signed them or answered with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hub.server.http.auth.admission import texts_in

SKEW: Final = 10
"""Seconds that the issuer's clock may differ."""
_MOST_SUBJECT: Final = 255
_FOR_EVER: Final = 1 << 53


class InvalidTokenError(Exception):
    """A token that is not valid: the text says why, as a part of a sentence."""


def check_times(claims: Mapping[str, Any], now: float) -> None:
    """Check when a token begins and ends (RFC 7519, 4.1.4 to 4.1.6), as far as it says so.

    Raises: InvalidTokenError.
    """
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    for name, at in times.items():
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _FOR_EVER:
            raise InvalidTokenError(f"{name} is no time")
    if times.get("exp", _FOR_EVER) + SKEW <= now:
        raise InvalidTokenError("it has expired")
    if max(times.get("nbf", 0), times.get("iat", 0)) - SKEW > now:
        raise InvalidTokenError("its time has not come yet")


def check_subject(claims: Mapping[str, Any]) -> None:
    """Check that a token names whose it is, so that logs can show the name.

    Raises: InvalidTokenError.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_SUBJECT:
        raise InvalidTokenError("sub is no name")
    if not subject.isprintable():
        raise InvalidTokenError("sub has characters that cannot be shown")


def check_wanted(claims: Mapping[str, Any], wanted: Mapping[str, tuple[str, ...]]) -> None:
    """Check that each of the wanted claims has one of its values.

    Raises: InvalidTokenError.
    """
    for name, allowed in wanted.items():
        if not set(texts_in(claims.get(name))) & set(allowed):
            raise InvalidTokenError(f"the claim {name} is another one")


def check_is_bearer(claims: Mapping[str, Any]) -> None:
    """Check that whoever has a token may use it.

    One that is bound to a key (RFC 7800, `cnf`) is of use only with a proof (RFC 8705, RFC 9449),
    which the hub does not ask for.

    Raises: InvalidTokenError.
    """
    if claims.get("cnf") is not None:
        raise InvalidTokenError("it is bound to a key, and the hub takes bearer tokens alone")


def scopes_in(claims: Mapping[str, Any]) -> set[str]:
    """Return a token's scopes: `scope` (RFC 8693, 4.2), or `scp` as some issuers have it."""
    found = claims.get("scope", claims.get("scp"))
    return {one for text in texts_in(found) for one in text.split(" ") if one}
