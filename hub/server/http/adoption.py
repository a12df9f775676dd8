"""HTTP sessions that outlive the process that opened them, and what that needs on disk.

A session id (`Mcp-Session-Id`) carries, signed, what its client declared, and is read only for its
principal: another process adopts the session at the first request with the id. An id that was ended
is remembered until it would expire. Nothing else of a session is carried on: roots are asked for
anew; subscriptions, log level, consent and unread events are gone.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from hub.calls.rounds.sealed_state import StateSealer
from hub.config.own_files import state_directory
from hub.jsonrpc import exact_json
from hub.jsonrpc.exact_json import WireError
from hub.protocol.constants import HANDSHAKE_VERSIONS
from hub.sessions.client import Client
from hub.system.machine import Machine
from hub.system.private_file import secret_in
from hub.system.sealing import RememberedIds, SealingSecrets, Signer
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
"""The capabilities that the hub itself has a use for."""
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
        own = {key: client.capabilities[key] for key in _CARRIED if client.declares(key)}
        carried = {**client.relayed(), **own}
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


_KEY: Final = "http-key"
_ENDED, _USED = "http-ended-", "http-used-"

log = structlog.stdlib.get_logger(__name__)


class SurvivingState(Struct, frozen=True):
    """What lets sessions and calls of modern clients go on in another process."""

    ids: SessionIds
    seals: StateSealer


def surviving_state(
    machine: Machine,
    *,
    keys: Sequence[str],
    replica: str | None,
    adopts: Collection[str],
    serves: str,
) -> SurvivingState:
    """Return the secrets and the remembered ids of a hub.

    Without `keys` the secret is in the state directory, and counts for hubs that serve the same:
    `serves` says which config at which address. What cannot be kept there ends with this process,
    and the log says so.
    """
    directory = state_directory(machine)
    sealed_with = sealing_secrets(machine, keys, serves)
    clock = machine.wall_clock
    own = hashlib.sha256(f"{serves}\n{replica or ''}".encode()).hexdigest()[:24]
    if directory is not None:
        _remove_old(directory, clock() - LASTS)
    ended, used = (
        RememberedIds(clock, None if directory is None else directory / f"{name}{own}", what=what)
        for name, what in ((_ENDED, "ended HTTP sessions"), (_USED, "used request states"))
    )
    return SurvivingState(
        SessionIds(sealed_with, clock, ended=ended, replica=replica, adopts=adopts),
        StateSealer(clock, sealed_with, used),
    )


def sealing_secrets(machine: Machine, keys: Sequence[str], serves: str) -> SealingSecrets:
    """Return the secrets of a hub: `keys`, else one in the state directory, for what it serves."""
    if keys:
        return SealingSecrets(tuple(key.encode() for key in keys))
    return _own_secret(state_directory(machine), serves)


def _own_secret(directory: Path | None, serves: str) -> SealingSecrets:
    try:
        if directory is None:
            raise FileNotFoundError(2, "there is no state directory")
        return SealingSecrets((secret_in(directory / _KEY),), realm=serves)
    except OSError as exc:
        log.warning(
            "HTTP sessions end with this process: the key for their ids cannot be kept",
            file=None if directory is None else str(directory / _KEY),
            error=exc.strerror,
            fix="Make that directory writable for the hub's user alone, or set listen.keys.",
        )
        return SealingSecrets.of_this_process()


def _remove_old(directory: Path, before: float) -> None:
    """Remove the records of hubs that have not written for so long that all of them expired."""
    with suppress(OSError):
        for path in directory.iterdir():
            if path.name.startswith((_ENDED, _USED)) and path.lstat().st_mtime < before:
                path.unlink()
