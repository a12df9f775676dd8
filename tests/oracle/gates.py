"""Guards that are weaker than the hub's, each in a way that somebody might build one."""

from __future__ import annotations

import os
import shlex

from hub.values import JsonObject
from tests.oracle.keys import ArgumentKey, strings_in
from tests.oracle.trees import PlantedWorld
from tests.oracle.verdicts import Gate, Guard


class Weak(Gate):
    """Looks at all strings of a call, at each in the same way."""

    def __init__(self, world: PlantedWorld) -> None:
        self._world = world

    def admits(self, key: ArgumentKey, arguments: JsonObject) -> bool:
        return all(self._allows(text) for text in strings_in(arguments))

    def _allows(self, text: str) -> bool:
        raise NotImplementedError


class AdmitsAll(Weak):
    """No guard at all."""

    def _allows(self, text: str) -> bool:
        return True


class Textual(Weak):
    """Looks at the text alone: what starts below a root, or nowhere, and does not climb."""

    def _allows(self, text: str) -> bool:
        is_relative = not text.startswith(("/", "~", "file:"))
        return ".." not in text and (is_relative or text.startswith(self._world.roots))


class AsGiven(Weak):
    """Asks the system, but only where the text as it is given leads."""

    def _allows(self, text: str) -> bool:
        path = text if text.startswith("/") else f"{self._world.cwd}/{text}"
        return self._world.is_inside(os.path.realpath(path))


class InWords(AsGiven):
    """The same, for each word."""

    def _allows(self, text: str) -> bool:
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        return all(super(InWords, self)._allows(word) for word in (text, *words))


class OnlyPaths(Gate):
    """The hub's guard, where the key says that a path is meant."""

    def __init__(self, world: PlantedWorld) -> None:
        self._guard = Guard(world)

    def admits(self, key: ArgumentKey, arguments: JsonObject) -> bool:
        return key.family != "path" or self._guard.admits(key, arguments)


WEAKER = (AdmitsAll, Textual, AsGiven, InWords, OnlyPaths)
