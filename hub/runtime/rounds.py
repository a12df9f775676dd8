"""A call of a modern client takes rounds: its result can be a question, its retry the answer."""

from __future__ import annotations

from hub.core.request_state import Carried
from hub.core.values import JsonObject


class InputNeededError(Exception):
    """A modern client has to be asked, by its call's result; its retry brings `carried` back.

    `lasts`: for how many seconds that retry is waited for.
    """

    def __init__(self, requests: JsonObject, carried: Carried, *, lasts: float) -> None:
        super().__init__("input is needed")
        self.requests = requests
        self.carried = carried
        self.lasts = lasts
