"""Asks the guard as the hub does: for plain paths first, then in general."""

from __future__ import annotations

import json
from functools import cache
from typing import Protocol

from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, ToolGuard, compile_tool, decide
from hub.guard.plain_paths import PlainPathCheck
from hub.guard.policy import Policy, ToolPolicy
from hub.paths.resolve import LinkReader
from hub.values import JsonObject
from tests.kit.worlds import Sight, at_once, context, share, tool_call
from tests.oracle.keys import ArgumentKey
from tests.oracle.trees import PlantedWorld


class Gate(Protocol):
    """Says which calls reach their child: the guard, or what is held beside it."""

    def admits(self, key: ArgumentKey, arguments: JsonObject) -> bool: ...


class FastPath(Sight):
    """Judges plain paths in one world, which does not change meanwhile, and nothing else."""

    def __init__(self, context: CallContext) -> None:
        self._plain_check = PlainPathCheck.of(context, (), Policy(), needs_write=True)
        self._disk = context.links

    @property
    def plain_check(self) -> PlainPathCheck | None:
        return self._plain_check

    @property
    def disk(self) -> LinkReader:
        return self._disk

    def memory(self) -> LinkReader:
        return self._disk

    def context(self, links: LinkReader) -> CallContext | None:
        return None  # what is not plain is left to `decide`


class Guard(Gate):
    """The guard, as a call of the hub meets it: what one of its two ways admits is admitted."""

    def __init__(self, world: PlantedWorld) -> None:
        self._around = context(share(*world.roots), world.cwd, env=world.env)
        self._fast_path = FastPath(self._around)

    def admits(self, key: ArgumentKey, arguments: JsonObject) -> bool:
        guard, call = _compiled(json.dumps(key.schema)), tool_call(arguments)
        soon = at_once(call, guard, self._fast_path)
        later = decide(call, guard, self._around)
        return isinstance(soon, Admitted) or isinstance(later, Admitted)


@cache
def _compiled(schema: str) -> ToolGuard:
    return compile_tool(json.loads(schema), read_only=False, policy=ToolPolicy(Policy()))
