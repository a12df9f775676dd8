"""`describe_roots: true`: add the allowed roots to the descriptions of tools that take paths."""

from __future__ import annotations

from hub.guard.decide import ToolGuard
from hub.guard.keys.nodes import nodes_of
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Mode
from hub.roots.effective import EffectiveRoots
from hub.values import JsonObject

SHOWN = 16
"""The most roots that a description names; each costs a model tokens in every conversation."""
_PATHS = frozenset({Kind.PATH, Kind.GLOB})


def takes_paths(guard: ToolGuard) -> bool:
    """Return whether a tool declares a path or glob argument, and the guard's mode is not off."""
    if guard.policy.policy.mode is Mode.OFF:
        return False
    return any(node.kind in _PATHS for node in nodes_of(guard.shape))


def told_of(here: EffectiveRoots) -> str | None:
    """Return the sentence that lists a server's effective roots; None if nothing is enforced."""
    if not here.enforcing:
        return None
    paths = here.roots.paths
    if not paths:
        return "No path is allowed: no folder is shared that can be used"
    shown = ", ".join(_one_line(path) for path in paths[:SHOWN])
    more = f", and {len(paths) - SHOWN} more that get-roots lists" if len(paths) > SHOWN else ""
    return f"Paths must be inside: {shown}{more}"


def with_sentence(entry: JsonObject, sentence: str) -> JsonObject:
    """Return a copy of a tool's `entry` with `sentence` added to its description."""
    old = entry.get("description")
    text = f"{old}\n{sentence}" if isinstance(old, str) and old else sentence
    return {**entry, "description": text}


def _one_line(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path)
