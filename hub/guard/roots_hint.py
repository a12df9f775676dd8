"""`describe_roots: true`: tools that take paths say where those must be, so that a model knows."""

from __future__ import annotations

from collections.abc import Mapping

from hub.guard.keys.schema import compile_schema, nodes_of
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Mode, ToolPolicy
from hub.roots.effective import EffectiveRoots
from hub.values import Json, JsonObject

SHOWN = 16
"""How many roots a description names; a model pays for each in every conversation."""
_PATHS = frozenset({Kind.PATH, Kind.GLOB})


def takes_paths(own: ToolPolicy, definition: Mapping[str, Json]) -> bool:
    """Return whether a tool declares an argument that is a path or glob and is judged."""
    if own.policy.mode is Mode.OFF:
        return False
    shape = compile_schema(definition.get("inputSchema"), own.arguments)
    return any(node.kind in _PATHS for node in nodes_of(shape))


def told_of(here: EffectiveRoots) -> str | None:
    """Return the sentence about the roots in force at a server; None if nothing is enforced."""
    if not here.enforcing:
        return None
    paths = here.roots.paths
    if not paths:
        return "No path is allowed: no folder is shared"
    shown = ", ".join(_one_line(path) for path in paths[:SHOWN])
    more = f", and {len(paths) - SHOWN} more that get-roots lists" if len(paths) > SHOWN else ""
    return f"Paths must be inside: {shown}{more}"


def with_sentence(entry: JsonObject, sentence: str) -> JsonObject:
    """Return a tool's entry with a sentence more in its description; nothing else changes."""
    old = entry.get("description")
    text = f"{old}\n{sentence}" if isinstance(old, str) and old else sentence
    return {**entry, "description": text}


def _one_line(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path)
