"""Asks the guard as the hub does: for plain paths first, then in general."""

from __future__ import annotations

import json
from functools import cache
from typing import Protocol

from hub.core.guard import Admitted, Sight, ToolGuard, admit, compile_tool, decide
from hub.core.paths import LinkReader
from hub.core.plain_paths import Ground
from hub.core.policy import Policy, ToolPolicy
from hub.core.values import JsonObject
from hub.core.whereabouts import Surroundings
from hub.runtime.links import CachedLinks, OsLinks
from tests.core.worlds import around, share, tool_call
from tests.oracle.keys import Key
from tests.oracle.trees import World


class Gate(Protocol):
    """Says which calls reach their child: the guard, or what is held beside it."""

    def admits(self, key: Key, arguments: JsonObject) -> bool: ...


class Here(Sight):
    """Judges in one world, which does not change meanwhile."""

    def __init__(self, world: World) -> None:
        self.around = around(share(*world.roots), world.cwd, env=world.env)
        self._ground = Ground.of(self.around, (), Policy(), needs_write=True)
        self._memory = CachedLinks(OsLinks())

    @property
    def ground(self) -> Ground | None:
        return self._ground

    @property
    def disk(self) -> LinkReader:
        return self._memory

    def memory(self) -> LinkReader:
        return self._memory

    def surroundings(self, links: LinkReader) -> Surroundings | None:
        return self.around


class Guard(Gate):
    """The guard, as a call of the hub meets it."""

    def __init__(self, world: World) -> None:
        self._here = Here(world)

    def admits(self, key: Key, arguments: JsonObject) -> bool:
        guard, call = _compiled(json.dumps(key.schema)), tool_call(arguments)
        soon = admit(call, guard, self._here) is not None
        decided = isinstance(decide(call, guard, self._here.around), Admitted)
        assert decided or not soon, f"only the fast path admits {arguments}"
        return decided


@cache
def _compiled(schema: str) -> ToolGuard:
    return compile_tool(json.loads(schema), read_only=False, policy=ToolPolicy(Policy()))
