"""Limits of principals, from `listen.limits` of the config; what is refused by them is audited."""

from __future__ import annotations

from hub.app.hub import Hub
from hub.audit.record import AuditRecord, moment
from hub.config.models import HubConfig
from hub.usage.principals import LimitsOf
from hub.values import SessionKey


def limits_of(config: HubConfig) -> LimitsOf | None:
    """Return what tells the limits of a principal; None if nobody has any."""
    values = config.listen.limits.values()
    return None if values is None else lambda _principal: values


def limit_principals(hub: Hub, config: HubConfig) -> None:
    """Hold the clients of a hub to the limits of its config, from now on and after each change."""

    def follow(changed: HubConfig) -> None:
        hub.usage.follow(limits_of(changed))

    def refused(principal: str, session: str, name: str, why: str) -> None:
        services = hub.services
        at = moment(services.machine.wall_clock())
        key = SessionKey(session)
        services.audit.write(AuditRecord(at, key, principal, "", name, "refused", why))

    hub.usage.refused = refused
    hub.follow(follow)
    follow(config)
