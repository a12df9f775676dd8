"""The servers of a config, as they would be started for a client without roots."""

from __future__ import annotations

import os
from argparse import Namespace

from hub.app.machine import place_of, this_machine
from hub.cli.options import config_path
from hub.config.models import HubConfig
from hub.config.operator_roots import operator_roots
from hub.config.to_specs import UsableServers, server_specs, usable_servers
from hub.roots.effective import EffectiveRoots, for_rootless, for_server
from hub.specs import ServerSpec


def servers_of(config: HubConfig, options: Namespace) -> list[tuple[ServerSpec, EffectiveRoots]]:
    """Return the servers that can be used, each with its roots."""
    machine = this_machine(os.environ)
    place = place_of(machine, config, config_path(options))
    effective = for_rootless(operator_roots(config.roots, options.root, place))
    return [
        (spec, for_server(effective, spec.ceiling)) for spec in server_specs(config, place).values()
    ]


def usable_of(config: HubConfig, options: Namespace) -> UsableServers:
    """Return the servers that can be used, and those that cannot, with the reasons."""
    place = place_of(this_machine(os.environ), config, config_path(options))
    return usable_servers(config, place)
