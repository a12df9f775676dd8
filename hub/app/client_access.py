"""What a config gives clients over HTTP: who is let in, with which profile, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from hub.app.hub import Hub
from hub.app.machine import this_machine
from hub.audit.log_file import AuditRecord, moment
from hub.config.listening.listen import Listen, is_guessable
from hub.config.models import HubConfig, StdioServer
from hub.errors import ConfigError
from hub.launch.known_servers import FILE_SERVER
from hub.protocol.http_headers import NOT_SENDABLE, is_loopback, is_sendable
from hub.server.http.access import AccessCheck, TrustedIssuers
from hub.server.http.auth.admission import ProfileMatch, ProfileRules
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.usage.principals import LimitsOf, RefusedCall
from hub.values import SessionKey

if TYPE_CHECKING:
    from hub.app.issuers import Issuers
    from hub.server.http.login_pages.endpoints import LoginPageEndpoints
    from hub.server.http.login_pages.steps import IssuerLogin


log = structlog.stdlib.get_logger(__name__)


class ClientAccess:
    """The access check of an endpoint at `host`; `follow` has it check by a changed config.

    Raises: ConfigError if other machines could reach the hub without a token.
    """

    def __init__(self, host: str, config: HubConfig, environment: Mapping[str, str]) -> None:
        self._host = host
        self._environment = environment
        self._pages: LoginPageEndpoints | None = None
        self._issuers: Issuers | None = None
        self._issuers = self._made(config)
        self._by = _issuers_in(config)
        trusted = self._trusted(config)
        listen, rules = config.listen, profile_rules(config)
        tokens = self._tokens(config)
        self.credentials = Credentials(tokens, trusted.verifier)
        self.check = AccessCheck(host, self.credentials, listen.origins, listen.names, rules)
        self.check.logins = trusted.logins
        _warn_of_confined(config, tokens)

    @property
    def issuer_logins(self) -> tuple[IssuerLogin, ...]:
        """The issuers at which people can show on the hub's pages who they are."""
        return () if self._issuers is None else self._issuers.logins

    def show_pages(self, pages: LoginPageEndpoints) -> None:
        """Serve the pages where principals log in at servers, too."""
        self._pages = pages
        self.check.let_log_in(pages)

    def follow(self, config: HubConfig) -> None:
        """Let in by a changed config from now on.

        Raises: ConfigError if others could reach the hub without a token; then nothing has changed.
        """
        listen, tokens = config.listen, self._tokens(config)
        self.check.ensure_guarded(is_guarded=bool(tokens) or listen.auth is not None)
        if _issuers_in(config) != self._by:
            self._warn_of_address(config)
            self._issuers, self._by = self._made(config), _issuers_in(config)
            self.check.trust(self._trusted(config))
        self.check.follow(tokens, listen.origins, listen.names, profile_rules(config))
        _warn_of_confined(config, tokens)

    def _warn_of_address(self, config: HubConfig) -> None:
        was, auth = self._issuers, config.listen.auth
        before, after = was and was.auth.resource, auth and auth.resource
        if self._pages is not None and before != after:
            log.warning("pages for logins at servers keep their address until a restart")

    def _made(self, config: HubConfig) -> Issuers | None:
        listen = config.listen
        if listen.auth is None:
            return None
        from hub.app.issuers import issuers_of  # noqa: PLC0415 - loads PyJWT

        machine, keys = this_machine(self._environment), keys_in(listen)
        return issuers_of(listen.auth, machine, keys, config.scopes, self._issuers)

    def _trusted(self, config: HubConfig) -> TrustedIssuers:
        issuers, pages = self._issuers, self._pages
        verifier = None if issuers is None else issuers.verifier
        logins = None if issuers is None else issuers.endpoints(config.listen.path)
        if pages is None:
            return TrustedIssuers(verifier, logins)
        pages.follow(self.issuer_logins, logins)
        return TrustedIssuers(verifier, pages)

    def _tokens(self, config: HubConfig) -> BearerTokens:
        own, named = config.listen.token, config.listen.tokens
        unnamed = _given(self._environment) if own is None else own.get_secret_value()
        self._warn_of_guessable(unnamed, config.listen)
        ends = {one.name: one.expires.timestamp() for one in named if one.expires is not None}
        return BearerTokens(unnamed, {one.name: one.hash for one in named}, ends)

    def _warn_of_guessable(self, token: str | None, listen: Listen) -> None:
        is_public = bool(listen.names) or not is_loopback(self._host)
        if token and is_public and is_guessable(token):
            log.warning("the token is easy to guess", fix="roots-hub token new NAME")


def _given(environment: Mapping[str, str]) -> str | None:
    """Return the token of the environment. Raises: ConfigError if no request can have it."""
    token = environment.get("HUB_TOKEN")
    if token and not is_sendable(token):
        raise ConfigError("HUB_TOKEN", NOT_SENDABLE, "Take it out: no request can have it.")
    return token


def _warn_of_confined(config: HubConfig, tokens: BearerTokens) -> None:
    """Warn that a confined server can connect as a client without a token, and name any roots."""
    launched = [(name, one) for name, one in config.servers.items() if isinstance(one, StdioServer)]
    confined = [
        name for name, one in launched if one.confine.mode != "off" and FILE_SERVER not in one.args
    ]
    if confined and not tokens and config.listen.auth is None:
        log.warning(
            "confined servers can use the hub as clients: no token is needed",
            servers=confined,
            fix="Set the variable HUB_TOKEN, listen.token or listen.tokens.",
        )


def _issuers_in(config: HubConfig) -> tuple[object, ...]:
    """Return the settings of the issuers: `follow` makes their verifier anew if these change."""
    auth = config.listen.auth
    return () if auth is None else (auth, config.scopes)


def keys_in(listen: Listen) -> list[str]:
    """Return the keys that seal what clients carry."""
    return [key.get_secret_value() for key in listen.keys]


def profile_rules(config: HubConfig) -> ProfileRules:
    """Return which clients have which profile of a config."""
    return ProfileRules(
        {
            name: None
            if profile.match is None
            else tuple(
                ProfileMatch(frozenset(one.tokens), one.issuer, one.wanted_claims)
                for one in profile.match
            )
            for name, profile in config.profiles.items()
        }
    )


def limits_of(config: HubConfig) -> LimitsOf | None:
    """Return a function that returns the limits of a principal; None if no principal has limits."""
    own = config.listen.limits.values()
    all_within = {name: one.limits.values(name) for name, one in config.profiles.items()}
    if own is None and not any(all_within.values()):
        return None
    return lambda _principal, profile: own if profile is None else all_within.get(profile)


def limit_principals(hub: Hub, config: HubConfig) -> None:
    """Apply the limits in the config to the principals of a hub, now and after each change."""

    def follow(changed: HubConfig) -> None:
        hub.usage.follow(limits_of(changed))

    def refused(call: RefusedCall) -> None:
        services = hub.services
        at = moment(services.machine.wall_clock())
        services.audit.write(
            AuditRecord(
                at,
                SessionKey(call.session),
                call.principal,
                "",
                call.name,
                "refused",
                call.why,
                profile=call.profile,
            )
        )

    hub.usage.refused = refused
    hub.follow(follow)
    follow(config)
