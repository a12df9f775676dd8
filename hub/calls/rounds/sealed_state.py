"""Sealed `requestState`: the hub's state of a call, which a client carries from round to round.

Encrypted, so clients cannot read, forge or change it. Without secrets of its own that outlive the
process, a hub refuses every older state after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from msgspec import Struct

from hub.jsonrpc import exact_json
from hub.jsonrpc.errors import RpcError
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.input_requests import CallState, state_in
from hub.system.sealing import RememberedIds, Sealer, SealingSecrets, mark_of, raw_of
from hub.values import Json

MAX_SPENT: Final = 65_536
"""How many used states that have not expired yet are remembered."""
MAX_SPENT_OF_ONE: Final = 16_384
"""How many used states of one identity are remembered."""


class OpenedState(Struct, frozen=True):
    """A decrypted state. `mark` and `expires` (seconds of the clock) are kept once it is used."""

    call_state: CallState
    mark: str
    expires: float


class StateSealer:
    """Seals and opens states. Each is valid once, for one call, until it expires.

    `max_spent` used states are remembered until then, `max_spent_of_one` of one identity. `used`
    remembers those of earlier processes with the same secrets.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        sealed_with: SealingSecrets | None = None,
        used: RememberedIds | None = None,
        *,
        max_spent: int = MAX_SPENT,
        max_spent_of_one: int = MAX_SPENT_OF_ONE,
    ) -> None:
        self._clock = clock
        self._max_spent, self._max_spent_of_one = max_spent, max_spent_of_one
        self._sealer = Sealer(sealed_with or SealingSecrets.of_this_process(), "request state")
        self._used = used
        self._spent: dict[str, dict[str, float]] = {}

    def seal(self, call_state: CallState, known_by: str, *, lasts: float) -> str:
        """Return a state for the next round of a call, valid for `lasts` seconds.

        `known_by` is the `call_digest` of the call.
        """
        plain = {"expires": self._clock() + lasts, **call_state.fields()}
        return self._sealer.seal(exact_json.encode(plain), known_by)

    def open(self, state: Json, known_by: str) -> OpenedState:
        """Return the content of a state; `spend` marks the state as used.

        Raises: RpcError if it was not made here for this call, has expired, or was used before.
        """
        if not isinstance(state, str) or raw_of(state) is None:
            _refuse("it is none of this hub's")
        plain = self._sealer.open(state, known_by)
        if plain is None:
            _refuse("it was not made for this call, or not by this hub")
        fields = exact_json.decode_strict(plain)
        expires = fields.get("expires") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not isinstance(expires, int | float):
            _refuse("it cannot be read")
        if self._clock() > expires:
            _refuse("it has expired; make the call again without it")
        mark = mark_of(state)
        self._refuse_spent(mark, expires)
        return OpenedState(state_in(fields), mark, float(expires))

    def spend(self, opened: OpenedState, identity: str) -> None:
        """Mark a client's state as used: it cannot be opened again.

        Raises: RpcError if it was used before, or if too many used states have not expired yet.
        """
        self._refuse_spent(opened.mark, opened.expires)
        if not self._has_room(identity):
            self._forget_expired()
            if not self._has_room(identity):
                raise RpcError(
                    INTERNAL_ERROR, "Too many calls are being continued; try again later"
                )
        self._spent.setdefault(identity, {})[opened.mark] = opened.expires
        if self._used is not None:
            self._used.add(opened.mark, opened.expires)

    def _has_room(self, identity: str) -> bool:
        """Return whether one more used state of a client can be remembered.

        When the total is full, only identities below an equal share of `max_spent` have room.
        """
        own = len(self._spent.get(identity, ()))
        if own >= self._max_spent_of_one:
            return False
        if sum(map(len, self._spent.values())) < self._max_spent:
            return True
        return own < self._max_spent // len(self._spent.keys() | {identity})

    def _forget_expired(self) -> None:
        now = self._clock()
        left = {
            identity: {mark: until for mark, until in spent.items() if until >= now}
            for identity, spent in self._spent.items()
        }
        self._spent = {identity: spent for identity, spent in left.items() if spent}

    def _refuse_spent(self, mark: str, until: float) -> None:
        earlier = self._used is not None and self._used.has(mark, until)
        if earlier or any(mark in spent for spent in self._spent.values()):
            _refuse("it was used before; make the call again without it")


def _refuse(why: str) -> NoReturn:
    raise RpcError(INVALID_PARAMS, f"requestState is not valid: {why}")
