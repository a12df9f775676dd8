"""Mistakes in the syntax of a config's text, and texts that cannot be edited without a risk."""

from __future__ import annotations

from typing import NoReturn

from msgspec import Struct

from hub.errors import ConfigError


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


def awkward(where: str, what: str = "file") -> NoReturn:
    """Refuse to edit what is written at `where`; `what` is to be edited by hand.

    Raises: ConfigError.
    """
    raise ConfigError(
        f"{where}: cannot be edited safely in the form it is written in",
        f"Nothing was changed. Edit the {what} by hand.",
    )
