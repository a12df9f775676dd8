"""At the start: warn of servers that cannot be confined, and refuse those with `require`."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from hub.confinement.grants import (
    Confined,
    ConfinementStatus,
    NotAsked,
    Unconfined,
    confinement_status,
    missing,
)
from hub.errors import ConfigError
from hub.launch.plan import LaunchTemplate
from hub.specs import ServerSpec
from hub.system.machine import Kernel

log = structlog.stdlib.get_logger(__name__)


def settle_confinement(servers: Iterable[ServerSpec], kernel: Kernel) -> None:
    """Log a warning for each server that this kernel cannot confine, or only in part.

    Raises: ConfigError for a server with `confine: require` that cannot be confined.
    """
    for spec in servers:
        if isinstance(spec.target, LaunchTemplate):
            _settle(spec, confinement_status(spec.confine, spec.target, kernel))


def _settle(spec: ServerSpec, found: ConfinementStatus) -> None:
    match found:
        case Unconfined(reason) if spec.confine.mode == "require":
            raise ConfigError(
                f"servers.{spec.name}.confine: is require, but confining fails: {reason}",
                "`roots-hub check --confine` shows why. With confine: auto it runs unconfined.",
            )
        case Unconfined(reason):
            log.warning("NOT confined", server=spec.name, asked="confine: auto", reason=reason)
        case Confined(abi, no_seccomp):
            if no_seccomp:
                log.warning("confined WITHOUT seccomp", server=spec.name, reason=no_seccomp)
            for text in missing(abi):
                log.warning("not enforced by this kernel", server=spec.name, abi=abi, what=text)
        case NotAsked():
            pass
