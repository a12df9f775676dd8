"""Sealed `requestState`: the hub's state of a call, which a client carries from round to round.

Encrypted with AES-GCM, so clients cannot read, forge or change it. The key is random and lives in
this process only: after a restart every older state is refused.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec import Struct

from hub.jsonrpc import exact_json
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.request_state import CallState, state_in
from hub.values import Json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_SPENT: Final = 65_536
"""How many used states that have not expired yet are remembered."""
MAX_SPENT_OF_ONE: Final = 16_384
"""How many used states of one principal are remembered."""
_NONCE, _TAG = 12, 16


class OpenedState(Struct, frozen=True):
    """A decrypted state. `nonce` and `expires` (seconds of the clock) are kept once it is used."""

    call_state: CallState
    nonce: bytes
    expires: float


class StateSealer:
    """Seals and opens states. Each is valid once, for one call, until it expires.

    `max_spent` used states are remembered until then, `max_spent_of_one` of one principal.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        max_spent: int = MAX_SPENT,
        max_spent_of_one: int = MAX_SPENT_OF_ONE,
    ) -> None:
        self._clock = clock
        self._max_spent, self._max_spent_of_one = max_spent, max_spent_of_one
        self._secret = secrets.token_bytes(32)
        self._spent: dict[str, dict[bytes, float]] = {}

    def seal(self, call_state: CallState, identity: str, *, lasts: float) -> str:
        """Return a state for the next round of the call `identity`, valid for `lasts` seconds."""
        plain = {"expires": self._clock() + lasts, **call_state.fields()}
        nonce = os.urandom(_NONCE)
        sealed = self._cipher.encrypt(nonce, exact_json.encode(plain), identity.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def open(self, state: Json, identity: str) -> OpenedState:
        """Return the content of a state; `spend` marks the state as used.

        Raises: RpcError if it was not made here for this call, has expired, or was used before.
        """
        raw = _raw(state)
        nonce, sealed = raw[:_NONCE], raw[_NONCE:]
        try:
            plain = self._cipher.decrypt(nonce, sealed, identity.encode())
        except self._forged:
            _refuse("it was not made for this call, or not by this hub")
        fields = exact_json.decode_strict(plain)
        expires = fields.get("expires") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not isinstance(expires, int | float):
            _refuse("it cannot be read")
        if self._clock() > expires:
            _refuse("it has expired; make the call again without it")
        self._refuse_spent(nonce)
        return OpenedState(state_in(fields), nonce, expires)

    def spend(self, opened: OpenedState, principal: str) -> None:
        """Mark a principal's state as used: it cannot be opened again.

        Raises: RpcError if it was used before, or if too many used states have not expired yet.
        """
        self._refuse_spent(opened.nonce)
        if not self._has_room(principal):
            self._forget_expired()
            if not self._has_room(principal):
                raise RpcError(
                    INTERNAL_ERROR, "Too many calls are being continued; try again later"
                )
        self._spent.setdefault(principal, {})[opened.nonce] = opened.expires

    def _has_room(self, principal: str) -> bool:
        """Return whether one more used state of a principal can be remembered.

        When the total is full, only principals below an equal share of `max_spent` have room.
        """
        own = len(self._spent.get(principal, ()))
        if own >= self._max_spent_of_one:
            return False
        if sum(map(len, self._spent.values())) < self._max_spent:
            return True
        return own < self._max_spent // len(self._spent.keys() | {principal})

    def _forget_expired(self) -> None:
        now = self._clock()
        left = {
            principal: {nonce: until for nonce, until in spent.items() if until >= now}
            for principal, spent in self._spent.items()
        }
        self._spent = {principal: spent for principal, spent in left.items() if spent}

    def _refuse_spent(self, nonce: bytes) -> None:
        if any(nonce in spent for spent in self._spent.values()):
            _refuse("it was used before; make the call again without it")

    @cached_property
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - slow to import, and only modern clients need it

        return AESGCM(self._secret)

    @cached_property
    def _forged(self) -> type[Exception]:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above

        return InvalidTag


def _raw(state: Json) -> bytes:
    """Return the bytes of a base64url state; any but the one canonical spelling is refused."""
    try:
        text = state if isinstance(state, str) else ""
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        _refuse("it is none of this hub's")
    if len(raw) < _NONCE + _TAG or base64.urlsafe_b64encode(raw).decode().rstrip("=") != state:
        _refuse("it is none of this hub's")
    return raw


def _refuse(why: str) -> NoReturn:
    raise RpcError(INVALID_PARAMS, f"requestState is not valid: {why}")
