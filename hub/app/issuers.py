"""The verifier of signed tokens, from `listen.auth` of the config. Loads PyJWT."""

from __future__ import annotations

import time

from hub.config.listening.auth import Auth, TrustedIssuer
from hub.server.http.auth.key_set import KeySet
from hub.server.http.auth.key_source import FileSource, KeySource, WebSource
from hub.server.http.auth.protected_resource import ProtectedResource
from hub.server.http.auth.signed_tokens import Issuer, TokenVerifier


def verifier_of(auth: Auth) -> TokenVerifier:
    """Return the verifier of tokens for the resource in `auth`."""
    names = tuple(one.issuer for one in auth.issuers)
    resource = ProtectedResource(auth.resource, names, auth.scopes)
    issuers = [
        Issuer(
            one.issuer,
            one.audience or auth.resource,
            one.algorithms,
            KeySet(one.issuer, _source(one), time.monotonic),
            one.wanted_claims,
        )
        for one in auth.issuers
    ]
    return TokenVerifier(resource, issuers, time.time)


def _source(issuer: TrustedIssuer) -> KeySource:
    if issuer.jwks is not None and "://" not in issuer.jwks:
        return FileSource(issuer.jwks)
    return WebSource(issuer.issuer, issuer.jwks)
