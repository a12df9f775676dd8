"""The pages where principals log in at servers, put together once a server has a login."""

from __future__ import annotations

import time
from collections.abc import Mapping

from hub.app.client_access import ClientAccess, keys_in
from hub.app.hub import Hub
from hub.config.listening.listen import Listen
from hub.protocol.http_headers import is_loopback
from hub.server.http.adoption import sealing_secrets
from hub.server.http.login_pages.endpoints import LoginPageEndpoints
from hub.server.http.login_pages.steps import KnownPeople, LoginSteps
from hub.server.http.oauth_proxy.tickets import TicketSealer
from hub.sessions.logins import ServerLogins
from hub.specs import ServerSpec
from hub.values import ServerName


def public_url(listen: Listen, bound: str) -> str:
    """Return the address of the endpoint as browsers reach it; `bound`: where the hub serves it.

    Other machines reach it by `listen.names` through what has a certificate for them.
    """
    if listen.auth is not None:
        return listen.auth.resource
    public = next((name for name in listen.names if not is_loopback(name)), None)
    return bound if public is None else f"https://{public}{listen.path}"


def show_login_pages(
    hub: Hub, logins: ServerLogins, access: ClientAccess, listen: Listen, bound: str
) -> None:
    """Serve the pages at the endpoint's public URL, and send principals to them from now on."""
    url, people = public_url(listen, bound), KnownPeople(access.credentials, access.issuer_logins)
    sealed_with = sealing_secrets(hub.own.machine, keys_in(listen), "logins")

    def specs(principal: str) -> Mapping[ServerName, ServerSpec]:
        """Return the servers that a principal can use, in all profiles that it may have."""
        rules, view = access.check.profiles, hub.own
        if not rules:
            return view.services.servers
        own = [view.profiles[name] for name in rules.possible(principal) if name in view.profiles]
        return {name: spec for services in own for name, spec in services.servers.items()}

    tickets = TicketSealer(sealed_with, url, time.time)
    logins.pages = steps = LoginSteps(url, people, tickets, logins, specs)
    hub.send_to_log_in(steps.address)
    access.show_pages(LoginPageEndpoints(steps, listen.path, access.check.logins))
