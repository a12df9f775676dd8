"""The verifier of issuers' tokens, from `listen.auth` of the config. Loads PyJWT."""

from __future__ import annotations

import time

from hub.config.listening.auth import Auth, TrustedIssuer
from hub.server.http.auth.introspection import (
    IntrospectionClient,
    IntrospectionEndpoint,
    OpaqueTokens,
)
from hub.server.http.auth.key_set import KeySet
from hub.server.http.auth.key_source import FileSource, KeySource, WebSource
from hub.server.http.auth.protected_resource import ProtectedResource
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.auth.token_verifier import TokenVerifier


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
    return TokenVerifier(resource, SignedTokens(issuers, time.time), time.time, _opaque(auth))


def _source(issuer: TrustedIssuer) -> KeySource:
    if issuer.jwks is not None and "://" not in issuer.jwks:
        return FileSource(issuer.jwks)
    return WebSource(issuer.issuer, issuer.jwks, is_optional=issuer.introspection is not None)


def _opaque(auth: Auth) -> OpaqueTokens | None:
    for one in auth.issuers:
        asked = one.introspection
        if asked is not None:
            client = IntrospectionClient(
                asked.client_id, asked.client_secret.get_secret_value(), asked.url
            )
            endpoint = IntrospectionEndpoint(one.issuer, client)
            audience = one.audience or auth.resource
            return OpaqueTokens(one.issuer, audience, one.wanted_claims, endpoint, time.time)
    return None
