"""Says at the start which servers cannot be confined, and refuses those that must be."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from hub.core.confinement import Kernel, Unconfined, standing
from hub.core.errors import ConfigError
from hub.core.launch import LaunchTemplate
from hub.core.specs import ServerSpec

log = structlog.stdlib.get_logger(__name__)


def settle_confinement(servers: Iterable[ServerSpec], kernel: Kernel) -> None:
    """Warn of each server that would be confined if it could.

    Raises: ConfigError for one that must be.
    """
    for spec in servers:
        if not isinstance(spec.target, LaunchTemplate):
            continue
        found = standing(spec.confine, spec.target, kernel)
        if not isinstance(found, Unconfined):
            continue
        if spec.confine.mode == "require":
            raise ConfigError(
                f"servers.{spec.name}.confine: require, and it cannot be: {found.reason}",
                "`roots-hub check --confine` tries it. With confine: auto it runs unconfined.",
            )
        log.warning("NOT confined", server=spec.name, asked="confine: auto", reason=found.reason)
