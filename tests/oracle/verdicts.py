"""Asks the guard as the hub does: for plain paths first, then in general."""

from __future__ import annotations

import json
from functools import cache
from typing import Protocol

from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, ToolGuard, compile_tool, decide
from hub.guard.plain_paths import PlainPathCheck
from hub.guard.policy import Policy, ToolPolicy
from hub.values import Call, JsonObject
from tests.kit.worlds import at_once, context, share, tool_call
from tests.oracle.keys import ArgumentKey
from tests.oracle.trees import PlantedWorld


class Gate(Protocol):
    """Says which calls reach their child: the guard, or what is held beside it."""

    def admits(self, key: ArgumentKey, arguments: JsonObject) -> bool: ...


def at_once_if_plain(
    call: Call, guard: ToolGuard, around: CallContext
) -> Admitted | Refused | None:
    """Return the verdict of the check for plain paths alone, for a tool without a policy."""
    check = PlainPathCheck.of(around, (), Policy(), needs_write=True)
    return at_once(call, guard, around, check, is_current=False)


class Guard(Gate):
    """The guard, as a call of the hub meets it: what one of its two ways admits is admitted."""

    def __init__(self, world: PlantedWorld) -> None:
        self._around = context(share(*world.roots), world.cwd, env=world.env)

    def admits(self, key: ArgumentKey, arguments: JsonObject) -> bool:
        guard, call = _compiled(json.dumps(key.schema)), tool_call(arguments)
        soon = at_once_if_plain(call, guard, self._around)
        later = decide(call, guard, self._around)
        return isinstance(soon, Admitted) or isinstance(later, Admitted)


@cache
def _compiled(schema: str) -> ToolGuard:
    return compile_tool(json.loads(schema), read_only=False, policy=ToolPolicy(Policy()))
