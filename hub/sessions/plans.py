"""How servers' processes are launched: thought out once for each server and set of roots."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.roots.effective import InForce
from hub.roots.roots import EMPTY, RootSet
from hub.specs import ServerSpec
from hub.values import ServerName

KEPT = 256
"""How many plans are remembered; the oldest make room."""


class Plans:
    """The plans of one hub: with the same environment there is one for a server and its roots.

    `directory` is where a child runs that is to run where the hub does.
    """

    def __init__(self, environment: Mapping[str, str], directory: str) -> None:
        self._environment = environment
        self._directory = directory
        self._kept: dict[tuple[ServerName, RootSet, bool], tuple[ServerSpec, LaunchPlan]] = {}

    def of(self, spec: ServerSpec, here: InForce) -> LaunchPlan | None:
        """Return how a server's process is launched under these roots; None for a remote one.

        Raises: ConfigError if a variable it needs is not set.
        """
        if not isinstance(spec.target, LaunchTemplate):
            return None
        shared = spec.share == "all"
        roots, anywhere = EMPTY if shared else here.roots, shared or not here.enforcing
        kept = self._kept.get((spec.name, roots, anywhere))
        if kept is not None and kept[0] is spec:
            return kept[1]
        made = plan(spec.target, roots, self._environment, directories=spec.directories)
        if made.cwd is None and anywhere:
            made = replace(made, cwd=self._directory)
        while len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[spec.name, roots, anywhere] = spec, made
        return made
