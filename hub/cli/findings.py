"""What is found wrong, as a value: `check` and `doctor` print it, each in its own way."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Level: TypeAlias = Literal["ok", "note", "warning", "problem"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "note", "warning", "problem")


class Finding(Struct, frozen=True):
    """One thing found: `where` it is, `what` it is; `fix` mends it.

    `about` is its kind. `fix` is a sentence, a command, or an edit with the file that it is for; it
    is empty if there is nothing to do.
    """

    level: Level
    about: str
    where: str
    what: str
    fix: str = ""

    @property
    def sentence(self) -> str:
        """It as a text for people, without its level and kind."""
        return ". ".join(filter(None, (f"{self.where}: {self.what}", self.fix)))
