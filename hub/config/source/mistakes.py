"""Mistakes in the syntax of a config's text, and texts that cannot be edited without a risk."""

from __future__ import annotations

from typing import Any, NoReturn, cast

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


def awkward(where: str) -> NoReturn:
    """Refuse to edit what is written at `where`.

    Raises: ConfigError.
    """
    raise ConfigError(
        where,
        "cannot be edited safely in the form it is written in",
        "Nothing was changed. Edit the file by hand.",
    )


def alike(one: object, other: object) -> bool:
    """Return whether two parsed values are alike, whatever the order of their keys."""
    if type(one) is not type(other) and not (isinstance(one, float) and isinstance(other, float)):
        return False
    if isinstance(one, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(one, list):
        ones, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(ones) == len(others) and all(map(alike, ones, others))
    return repr(one) == repr(other)
