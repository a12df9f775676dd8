"""Puts values under all keys, asks the gate, and opens what it admits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from hub.values import JsonObject
from tests.oracle.keys import KEYS, ArgumentKey, ProcessTree
from tests.oracle.openers import opened
from tests.oracle.promises import Opened
from tests.oracle.spellings import Attack
from tests.oracle.trees import PlantedWorld, planted
from tests.oracle.verdicts import Gate

Opener: TypeAlias = Callable[
    [list[tuple[str, ProcessTree]], PlantedWorld], Iterable[Iterable[Opened]]
]
"""Opens values, each as under a key of some kind; says for each what was reached outside."""
GateAt: TypeAlias = Callable[[PlantedWorld], Gate]


class Escape(NamedTuple):
    """A call that was admitted, and what it reached."""

    key: ArgumentKey
    arguments: JsonObject
    opened: Opened
    world: PlantedWorld

    def __str__(self) -> str:
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        schema = "" if self.key.schema is None else f"  (schema {json.dumps(self.key.schema)})"
        _, chain, text, path, found = self.opened
        line = (
            f"{self.key.family}: {arguments}{schema}\n"
            f"    opened by: {', '.join(chain)}; as {text!r}\n"
            f"    at {path} it is {found}"
        )
        return self.world.shown(line)


def in_python(values: list[tuple[str, ProcessTree]], world: PlantedWorld) -> Iterator[list[Opened]]:
    """Open values by Python's library."""
    for text, family in values:
        yield list(opened(text, family, world))


def given_to(key: ArgumentKey, value: str) -> str:
    """Return what a child opens of a value: of a command all its words."""
    if key.family != "command":
        return value
    return str(next(iter(key.put(value).values())))


def escapes(
    attack: Attack, gate_at: GateAt, opener: Opener, keys: tuple[ArgumentKey, ...] = KEYS
) -> Iterator[Escape]:
    """Yield the ways in which what the gate admits is opened outside."""
    with planted(attack.tree) as world:
        gate = gate_at(world)
        admitted: list[tuple[ArgumentKey, JsonObject, tuple[str, ProcessTree]]] = []
        for spelling in attack.spellings:
            value = spelling.written(world)
            for key in keys:
                arguments = key.put(value)
                if gate.admits(key, arguments):
                    admitted.append((key, arguments, (given_to(key, value), key.family)))
        values = list(dict.fromkeys(value for _, _, value in admitted))
        reached = dict(zip(values, opener(values, world), strict=True))
        for key, arguments, value in admitted:
            for found in reached[value]:
                yield Escape(key, arguments, found, world)
                break


def report(found: list[Escape]) -> str:
    """Return the escapes of one attack, for whoever has to mend the guard."""
    return "\n".join(["what the guard admits was opened outside of the roots:", *map(str, found)])
