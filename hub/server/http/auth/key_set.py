"""The public keys of one issuer: kept, fetched again now and then, and when a new one is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from hub.server.http.auth.issuer_metadata import IssuerUnavailableError
from hub.server.http.auth.key_source import JsonWebKey, KeySource

APART: Final = 30.0
"""Seconds between two fetches at least, however many unknown keys are named."""
FRESH: Final = 300.0
"""Seconds after which the keys are fetched again, so that one which is gone ends soon."""

log = structlog.stdlib.get_logger(__name__)


class KeySet:
    """The keys of `issuer` from `source`; `clock` gives seconds, from any start.

    While the source cannot be reached, the keys that are known go on.
    """

    def __init__(self, issuer: str, source: KeySource, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._source = source
        self._clock = clock
        self._keys: dict[str | None, JsonWebKey] = {}
        self._tried: float | None = None
        self._failed: str | None = None
        self._turn = anyio.Lock()
        self.changes = 0
        """How often other keys were found than before."""

    async def find(self, name: str | None) -> JsonWebKey | None:
        """Return the key with this id (`kid`); None if the issuer has none.

        A token without an id has the only key that there is.

        Raises: IssuerUnavailableError if it is not known, and the source cannot be reached.
        """
        found = self._known(name)
        if found is None:
            await self.refresh()
            found = self._known(name)
        if found is None and self._failed is not None:
            raise IssuerUnavailableError(self._failed)
        return found

    def _known(self, name: str | None) -> JsonWebKey | None:
        if name is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name) if name is not None else None

    async def refresh(self) -> None:
        """Fetch the keys, unless that was tried in the last `APART` seconds."""
        async with self._turn:
            if self._tried is not None and self._clock() - self._tried < APART:
                return
            self._tried = self._clock()
            try:
                keys = await self._source()
            except IssuerUnavailableError as exc:
                self._note_failure(str(exc))
                return
            except Exception as exc:  # noqa: BLE001 - no issuer may end the hub
                self._note_failure(f"{type(exc).__name__}: {exc}")
                return
            if self._failed is not None:
                log.info("the keys of an issuer can be had again", issuer=self._issuer)
            self._failed = None
            found = {_name(key): key for key in keys}
            if found != self._keys:
                self._keys = found
                self.changes += 1

    def _note_failure(self, why: str) -> None:
        if self._failed is None:
            log.warning(
                "the keys of an issuer cannot be had",
                issuer=self._issuer,
                reason=why,
                next="known keys go on; tokens with others get 503 until it answers",
            )
        self._failed = why

    async def keep_fresh(self) -> None:
        """Fetch the keys now and again, until cancelled."""
        while True:
            await self.refresh()
            await anyio.sleep(APART if self._failed is not None else FRESH)


def _name(key: JsonWebKey) -> str | None:
    name = key.get("kid")
    return name if isinstance(name, str) else None
