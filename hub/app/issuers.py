"""The verifier of issuers' tokens, and the OAuth proxy, from `listen.auth`. Loads PyJWT."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hub.config.listening.auth import Auth, Introspection, IssuerClient, TrustedIssuer
from hub.server.http.adoption import sealing_secrets
from hub.server.http.auth.admission import ProtectedResource
from hub.server.http.auth.introspection import (
    IntrospectionClient,
    IntrospectionEndpoint,
    OpaqueTokens,
)
from hub.server.http.auth.issuer_metadata import KeySet, KeySource, keys_in_file, keys_on_web
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.auth.token_verifier import TokenVerifier
from hub.server.http.login_pages.steps import IssuerLogin
from hub.server.http.oauth_proxy.endpoints import OAuthEndpoints
from hub.server.http.oauth_proxy.identity_provider import IdentityProvider, IdTokens, ProviderClient
from hub.server.http.oauth_proxy.proxy import OAuthProxy
from hub.server.http.oauth_proxy.tickets import HubTokens, Tickets
from hub.system.machine import Machine

_KeysFrom: TypeAlias = tuple[str, str | None, bool]
"""Where the keys of an issuer come from: it, their address, and whether they may be missing."""


class Issuers(Struct, frozen=True):
    """What lets clients in by their users' logins; `proxy` where these go through the hub.

    `auth` is where all of it comes from. `keys` are those of its issuers. `logins` are those at
    which people can show on the hub's pages who they are.
    """

    auth: Auth
    verifier: TokenVerifier
    keys: Mapping[_KeysFrom, KeySet]
    logins: tuple[IssuerLogin, ...] = ()
    proxy: OAuthProxy | None = None

    def endpoints(self, path: str) -> OAuthEndpoints | None:
        """Return the endpoints of the OAuth proxy at `path`; None if there is no proxy."""
        return None if self.proxy is None else OAuthEndpoints(self.proxy, path)


def issuers_of(
    auth: Auth,
    machine: Machine,
    keys: Sequence[str],
    supported: tuple[str, ...] = (),
    before: Issuers | None = None,
) -> Issuers:
    """Return the verifier of tokens for the resource in `auth`, and the proxy if it has one.

    `supported` are all scopes that clients may need. `keys` seal what clients carry for the proxy;
    without any, the machine's own key does. What is known of issuers that were the same `before` is
    kept: their keys, and the connections to where people log in.
    """
    # Where logins go through the hub, clients find the hub itself in place of the issuer.
    names = tuple(auth.resource if one.proxy else one.issuer for one in auth.issuers)
    resource = ProtectedResource(auth.resource, names, auth.scopes, supported)
    known = {_keys_of(one): _key_set(one, before) for one in auth.issuers}
    trusted = {one.issuer: _issuer(one, auth, known[_keys_of(one)]) for one in auth.issuers}
    signed = SignedTokens(list(trusted.values()), time.time)
    opaque = _opaque(auth)
    logins = tuple(_logins(auth, trusted))
    for one in auth.issuers:
        if one.proxy is not None:
            sealed_with = sealing_secrets(machine, keys, "oauth")
            tickets = Tickets(sealed_with, auth.resource, one.issuer, time.time)
            own = HubTokens(tickets, one.issuer, one.wanted_claims)
            id_tokens = _id_tokens(trusted[one.issuer], one.proxy)
            provider = _provider_before(auth, one, before)
            provider = provider or login_provider(auth.resource, one, one.proxy)
            proxy = OAuthProxy(resource, provider, id_tokens, tickets, time.time)
            verifier = TokenVerifier(resource, signed, time.time, opaque, own)
            return Issuers(auth, verifier, known, logins, proxy)
    return Issuers(auth, TokenVerifier(resource, signed, time.time, opaque), known, logins)


def _logins(auth: Auth, trusted: Mapping[str, Issuer]) -> Iterator[IssuerLogin]:
    for one in auth.issuers:
        client = one.client_of_pages
        if client is not None:
            # The same claims are wanted as of tokens: others can log in nowhere on the pages.
            provider = login_provider(auth.resource, one, client)
            yield IssuerLogin(provider, _id_tokens(trusted[one.issuer], client))


def _id_tokens(issuer: Issuer, client: IssuerClient) -> IdTokens:
    # ID tokens are for the client that asked for the login, which is the hub's own.
    own = replace(issuer, audience=client.client_id)
    return IdTokens(client.client_id, SignedTokens([own], time.time))


def _keys_of(one: TrustedIssuer) -> _KeysFrom:
    return one.issuer, one.jwks, one.introspection is not None


def _key_set(one: TrustedIssuer, before: Issuers | None) -> KeySet:
    known = None if before is None else before.keys.get(_keys_of(one))
    return known or KeySet(one.issuer, key_source(one), time.monotonic)


def _issuer(one: TrustedIssuer, auth: Auth, keys: KeySet) -> Issuer:
    audience = one.audience or auth.resource
    return Issuer(one.issuer, audience, one.algorithms, keys, one.wanted_claims)


def _provider_before(
    auth: Auth, one: TrustedIssuer, before: Issuers | None
) -> IdentityProvider | None:
    """Return the identity provider of the last config if it is unchanged; else None."""
    if before is None or before.proxy is None or before.auth.resource != auth.resource:
        return None
    was = ((each.issuer, each.proxy) for each in before.auth.issuers)
    return before.proxy.provider if (one.issuer, one.proxy) in was else None


def key_source(issuer: TrustedIssuer) -> KeySource:
    """Return where the public keys of an issuer come from."""
    if issuer.jwks is not None and "://" not in issuer.jwks:
        return partial(keys_in_file, issuer.jwks)
    is_optional = issuer.introspection is not None
    return partial(keys_on_web, issuer.issuer, issuer.jwks, is_optional=is_optional)


def _opaque(auth: Auth) -> OpaqueTokens | None:
    for one in auth.issuers:
        if one.introspection is not None:
            endpoint = introspection_endpoint(one, one.introspection)
            audience = one.audience or auth.resource
            return OpaqueTokens(one.issuer, audience, one.wanted_claims, endpoint, time.time)
    return None


def introspection_endpoint(one: TrustedIssuer, asked: Introspection) -> IntrospectionEndpoint:
    """Return the client of an issuer's introspection endpoint, for opaque tokens."""
    client = IntrospectionClient(asked.client_id, asked.client_secret.get_secret_value(), asked.url)
    return IntrospectionEndpoint(one.issuer, client)


def login_provider(resource: str, one: TrustedIssuer, own: IssuerClient) -> IdentityProvider:
    """Return the issuer as the place where people log in for the hub at `resource`."""
    client = ProviderClient(
        own.client_id, own.client_secret.get_secret_value(), own.scopes, own.parameters
    )
    return IdentityProvider(one.issuer, client, f"{resource.rstrip('/')}/oauth/callback")
