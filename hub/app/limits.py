"""Limits of principals, from `listen` and `profiles` of the config; what they refuse is audited."""

from __future__ import annotations

from hub.app.hub import Hub
from hub.audit.record import AuditRecord, moment
from hub.config.models import HubConfig
from hub.usage.limits import RefusedCall
from hub.usage.principals import LimitsOf
from hub.values import SessionKey


def limits_of(config: HubConfig) -> LimitsOf | None:
    """Return what tells the limits of a principal; None if nobody has any."""
    own = config.listen.limits.values()
    all_within = {name: one.limits.values(name) for name, one in config.profiles.items()}
    if own is None and not any(all_within.values()):
        return None
    return lambda _principal, profile: own if profile is None else all_within.get(profile)


def limit_principals(hub: Hub, config: HubConfig) -> None:
    """Hold the clients of a hub to the limits of its config, from now on and after each change."""

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
