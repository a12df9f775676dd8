"""The calls that wait for the next requests of their modern clients, limited in number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import structlog

from hub.calls.rounds.askable_call import AskableCall
from hub.jsonrpc.errors import RpcError
from hub.protocol.constants import INTERNAL_ERROR

MAX_PARKED: Final = 256
"""How many calls may wait for their clients' answers; beyond, a child's request is refused."""
MAX_PARKED_OF_ONE: Final = 64
"""How many of these calls one principal may have."""

log = structlog.stdlib.get_logger(__name__)


class ParkedCalls:
    """The calls whose children have asked their clients, by the key that the clients bring back."""

    def __init__(self) -> None:
        self._calls: dict[str, AskableCall] = {}

    def find(self, key: str | None) -> AskableCall | None:
        """Return the call of a key; None if it has ended."""
        return self._calls.get(key or "")

    def add(self, key: str, call: AskableCall) -> None:
        """Register a call that waits for its client; if there are too many, cancel an old one.

        Raises: RpcError if there are too many, and none was abandoned.
        """
        if key in self._calls:
            return
        principal = call.owner.principal
        of_one = [one for one in self._calls.values() if one.owner.principal == principal]
        if len(of_one) >= MAX_PARKED_OF_ONE:
            self._cancel_one(of_one)
        elif len(self._calls) >= MAX_PARKED:
            self._cancel_one(self._by_principals())
        self._calls[key] = call

    def remove(self, key: str) -> None:
        """Forget a call that no retry can attach any more."""
        self._calls.pop(key, None)

    def _by_principals(self) -> list[AskableCall]:
        """Return all calls, those of the principal with the most first, then by age."""
        calls = list(self._calls.values())
        counts = Counter(one.owner.principal for one in calls)
        return sorted(calls, key=lambda one: -counts[one.owner.principal])

    def _cancel_one(self, calls: Sequence[AskableCall]) -> None:
        """Cancel the first of `calls` that was abandoned by its client.

        Raises: RpcError if there is none.
        """
        left = next((one for one in calls if one.is_abandoned), None)
        if left is None:
            log.warning("not asked: too many calls wait for their clients", of_one=len(calls))
            raise RpcError(INTERNAL_ERROR, "too many calls wait for their clients' answers")
        self._calls = {key: one for key, one in self._calls.items() if one is not left}
        left.cancel("its client has not come back, and others ask")
