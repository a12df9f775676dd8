"""What the command line adds to a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hub.config.watch import Watched
from hub.system.machine import Machine


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
