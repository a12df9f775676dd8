"""What a child asks of its own accord."""

from __future__ import annotations

from hub.runtime.peer import Asked
from hub.runtime.waiting import Progress


class Question:
    """One question."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    @property
    def reason(self) -> str:
        """What is told of it when the child takes it back."""
        return self._asked.reason

    @property
    def progress(self) -> Progress | None:
        """Nowhere: nothing is reported on the way to its answer."""
        return None
