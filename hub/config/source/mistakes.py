"""Mistakes in the syntax of a config's text."""

from __future__ import annotations

from msgspec import Struct


class Mistake(Struct, frozen=True):
    """A mistake in the syntax of a text, and its position."""

    what: str
    fix: str
    at: int


class SyntaxMistakesError(ValueError):
    """A text that cannot be parsed, or has keys twice."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__(mistakes[0].what)
        self.mistakes = mistakes


def twice(key: str, at: int) -> Mistake:
    """Return the mistake of a key that a mapping has twice; `at` is its second place."""
    return Mistake(f"duplicate key {key!r}", "Keep one of them.", at)
