"""What the command line (`Setting`) and this machine add to a config.

Of the machine: paths, environment, clocks, kernel.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext
from hub.config.own_files import own_files
from hub.config.watch import Watched
from hub.confinement.confined_launch import this_kernel
from hub.paths.resolve import Flavour, PathError, resolve
from hub.roots.roots import UnsafePaths
from hub.system.machine import Machine, OsDisk


class Setting(Struct, frozen=True):
    """What the command line adds: `given` are `--root` options, `ceiling` limits all clients.

    `watched` is the config file; a running hub takes over its changes. `is_for_one`: one
    client is served, over stdio. `shared_by`: others are served beside it, by a hub with this
    machine. `log_file` is where the log goes beside stderr. `is_told`: the command itself has told
    what the config leaves out.
    """

    given: Sequence[str] = ()
    ceiling: Sequence[str] = ()
    watched: Watched | None = None
    is_for_one: bool = False
    shared_by: Machine | None = None
    log_file: str | None = None
    is_told: bool = False

    @property
    def config_path(self) -> Path | None:
        """The path of the config file; None if there is no config file."""
        return None if self.watched is None else self.watched.path


def this_machine(environment: Mapping[str, str], platform: str = sys.platform) -> Machine:
    """Return the machine that this process runs on; `platform` says how its paths are written."""
    return Machine(
        links=OsDisk(),
        flavour=Flavour.of(platform),
        environment=environment,
        directory=str(Path.cwd()),
        clock=time.monotonic,
        wall_clock=time.time,
        kernel=this_kernel(),
    )


def place_of(
    machine: Machine,
    config: HubConfig | None = None,
    source: Path | None = None,
    log_file: str | None = None,
    *,
    shared_by: Machine | None = None,
) -> PathContext:
    """Return the `PathContext` of `machine`; `source` is the file that `config` came from."""
    audit = config.audit.file if config is not None and config.audit is not None else None
    own = own_files(machine, config=source, audit=audit, log=log_file, also=shared_by)
    unsafe = UnsafePaths(
        _home(machine),
        machine.flavour,
        own=(place.parts for place in own.secret),
        lifted=config is not None and config.roots.allow_unsafe,
    )
    return PathContext(
        machine.links,
        machine.flavour,
        unsafe,
        machine.directory,
        machine.environment,
        own,
        is_shared=shared_by is not None,
    )


def _home(machine: Machine) -> str | None:
    home = str(Path.home())
    try:
        return resolve(home, cwd=None, links=machine.links, flavour=machine.flavour)
    except PathError:
        return home
