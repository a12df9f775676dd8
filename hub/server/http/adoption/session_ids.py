"""Session ids (`Mcp-Session-Id`) that say, signed, what their client declared.

They are read only for the principal that they were made for.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from hub.jsonrpc import exact_json
from hub.jsonrpc.exact_json import WireError
from hub.protocol.constants import HANDSHAKE_VERSIONS
from hub.sessions.client import Client
from hub.system.remembered_ids import RememberedIds
from hub.system.sealing import SealingSecrets, Signer
from hub.values import Json, JsonObject

LASTS: Final = 7 * 24 * 3600
"""Seconds from its making in which an id can be adopted."""
MAX_ID: Final = 1000
"""Characters of an id at most."""
MAX_CONTENT: Final = 640
"""Bytes of what an id carries at most; with more, the id is a random one that nobody adopts."""
SKEW: Final = 300
"""Seconds that the clocks of two machines may differ."""
_CARRIED: Final = ("roots", "sampling", "elicitation")
"""The capabilities that the hub has a use for."""
_MAX_NAME: Final = 64
_READABLE: Final = re.compile(r"(?:([a-z0-9-]{1,32})\.)?([A-Za-z0-9_-]+)")


class _Content(Struct, frozen=True):
    """What an id carries; times are in seconds since 1970."""

    issued: int
    expires: int
    client: Client

    def fields(self) -> list[Json]:
        client = self.client
        return [self.issued, self.expires, client.version, client.capabilities, client.info]


class SessionIds:
    """Makes, opens and ends the ids of one endpoint; `clock` gives seconds since 1970.

    Ids begin with `replica`, if there is one. Opened are those of this replica and of the replicas
    in `adopts`.
    """

    def __init__(
        self,
        signed_with: SealingSecrets,
        clock: Callable[[], float],
        *,
        ended: RememberedIds | None = None,
        replica: str | None = None,
        adopts: Collection[str] = (),
    ) -> None:
        self._signer = Signer(signed_with, "http session")
        self.clock = clock
        self._ended = RememberedIds(clock) if ended is None else ended
        self._replica = replica or ""
        self._opened = frozenset({self._replica, *adopts})

    @classmethod
    def of_this_process(cls) -> SessionIds:
        """Return ids that no other process opens."""
        return cls(SealingSecrets.of_this_process(), time.time)

    def made_for(self, client: Client | None, identity: str) -> str:
        """Return a new id. Without a client, or with one that declares too much, nobody adopts it.

        Visible ASCII, `MAX_ID` characters at most.
        """
        content = None if client is None else self._content_of(client)
        token = (
            secrets.token_hex(16)
            if content is None
            else self._signer.sign(content, _bound_to(self._replica, identity))
        )
        return f"{self._replica}.{token}" if self._replica else token

    def _content_of(self, client: Client) -> bytes | None:
        now = int(self.clock())
        info: JsonObject = {
            key: value[:_MAX_NAME]
            for key in ("name", "version")
            if isinstance(value := client.info.get(key), str)
        }
        carried = {key: client.capabilities[key] for key in _CARRIED if client.declares(key)}
        told = Client("legacy", client.version, carried, info)
        try:
            content = exact_json.encode(_Content(now, now + LASTS, told).fields())
        except WireError:
            return None
        return content if len(content) <= MAX_CONTENT else None

    def opened(self, id_: str, identity: str) -> Client | None:
        """Return the client whose session may be adopted; None if it may not.

        It may not if the id was not made by this hub for this principal, belongs to a replica that
        is not taken over, has expired, or was ended.
        """
        content = self._content_in(id_, identity)
        if content is None:
            return None
        if not content.issued - SKEW <= self.clock() < content.expires:
            return None
        return None if self._ended.has(id_, content.expires) else content.client

    def end(self, id_: str, identity: str) -> None:
        """Remember that an id was ended: it is not opened again."""
        content = self._content_in(id_, identity)
        if content is not None:
            self._ended.add(id_, content.expires)

    def _content_in(self, id_: str, identity: str) -> _Content | None:
        readable = _READABLE.fullmatch(id_) if len(id_) <= MAX_ID else None
        if readable is None:
            return None
        replica, token = readable[1] or "", readable[2]
        if replica not in self._opened:
            return None
        plain = self._signer.read(token, _bound_to(replica, identity))
        return None if plain is None else _read(plain)


def _read(plain: bytes) -> _Content | None:
    """Return the content that `_Content.fields` wrote; None for that of another version."""
    match exact_json.decode_strict(plain):
        case [int(issued), int(expires), str(version), dict(capabilities), dict(info)]:
            if version in HANDSHAKE_VERSIONS:
                return _Content(issued, expires, Client("legacy", version, capabilities, info))
        case _:
            pass
    return None


def _bound_to(replica: str, identity: str) -> str:
    return f"{replica}\n{identity}"
