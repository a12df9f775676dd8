"""The servers of a config, as they would be started for a client without roots."""

from __future__ import annotations

import os
from argparse import Namespace

from hub.app.machine import place_of, this_machine
from hub.cli.options import config_path
from hub.config.models import HubConfig
from hub.config.narrowing import narrowed_roots, narrowed_servers
from hub.config.operator_roots import operator_roots
from hub.config.to_specs import UsableServers, server_specs, usable_servers
from hub.roots.effective import EffectiveRoots, for_rootless, for_server
from hub.specs import ServerSpec


def servers_of(
    config: HubConfig, options: Namespace, profile: str | None = None
) -> list[tuple[ServerSpec, EffectiveRoots]]:
    """Return the servers that can be used, each with its roots: all, or those of a profile."""
    machine = this_machine(os.environ)
    place = place_of(machine, config, config_path(options))
    roots, specs = operator_roots(config.roots, options.root, place), server_specs(config, place)
    if profile is not None:
        roots = narrowed_roots(roots, config, profile, place)
        specs = narrowed_servers(specs, config, profile, place)
    effective = for_rootless(roots)
    return [(spec, for_server(effective, spec.ceiling)) for spec in specs.values()]


def usable_of(config: HubConfig, options: Namespace) -> UsableServers:
    """Return the servers that can be used, and those that cannot, with the reasons."""
    place = place_of(this_machine(os.environ), config, config_path(options))
    return usable_servers(config, place)
