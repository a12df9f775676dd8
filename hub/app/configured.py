"""From a config to the values that serve its clients."""

from __future__ import annotations

from msgspec.structs import replace

from hub.app.machine import place_of
from hub.app.setting import Setting
from hub.catalog.names import Names
from hub.config.bare_names import names_record, settled
from hub.config.models import HubConfig
from hub.config.narrowing import narrowed
from hub.config.operator_roots import operator_roots
from hub.config.to_specs import UsableServers, usable_servers
from hub.config.withholding import settle_confinement, warn_of_left_out, warn_of_missed
from hub.sessions.services import Configured, ResultLimit, RootsSettings
from hub.system.machine import Machine


def configured(config: HubConfig, setting: Setting, machine: Machine) -> Configured:
    """Return what a config says on this machine; warn of what is left out, or less than asked.

    Raises: ConfigError if no server is usable, or one must be confined and cannot be; StartError
        if a root of the command line cannot be used.
    """
    place = place_of(
        machine, config, setting.config_path, setting.log_file, shared_by=setting.shared_by
    )
    usable = usable_servers(config, place)
    warn_of_left_out(usable.left_out)
    settle_confinement(usable.specs.values(), machine.kernel)
    warn_of_missed(usable.specs.values(), machine.environment)
    roots = config.roots
    made = Configured(
        servers=usable.specs,
        names=_names(config, setting, usable, machine),
        roots=operator_roots(roots, setting.given, place, ceiling=setting.ceiling),
        settings=RootsSettings(roots.timeout, roots.debounce, place.unsafe, roots.reuse),
        expose=config.expose,
        preface=config.instructions,
        left_out=usable.left_out,
        max_result=_max_result(config, setting),
    )
    profiles = {name: narrowed(made, config, name, place) for name in config.profiles}
    return replace(made, profiles=profiles) if profiles else made


def _names(config: HubConfig, setting: Setting, usable: UsableServers, machine: Machine) -> Names:
    """Return the public names. Without a config file nothing is known of an earlier start.

    A server that is left out counts: when it is mended, the names of the others stay.
    """
    servers = [*usable.specs, *(one.name for one in usable.left_out)]
    if setting.config_path is None:
        return Names(servers, config.names)
    first = settled(names_record(machine), setting.config_path, servers, config.names)
    return Names(servers, config.names, None if first is None else first.server)


def _max_result(config: HubConfig, setting: Setting) -> ResultLimit | None:
    part, key = (config.stdio, "stdio") if setting.is_for_one else (config.listen, "listen")
    return None if part.max_result is None else ResultLimit(part.max_result, f"{key}.max_result")
