"""Limits for request bodies: their memory together, and the loop's time to read large ones.

Freed memory goes back to the system.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
import gc
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import anyio

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Message
from hub.jsonrpc.parsing import parse_client
from hub.jsonrpc.peer_conduct import BURST_OF_ALL, SHARE_OF_ALL, TimeBudget
from hub.system.this_process import give_back
from hub.usage.fair_parts import FairParts, Owner

MOST: Final = 256 * 1024 * 1024
"""Bytes that the bodies of all requests under way may have together."""
SMALL: Final = 4096
"""Bytes up to which a body is not counted, as there are no more of these than connections, and
below which a piece of a body gets no object of its own."""
RETRY_AFTER: Final = 5
"""Seconds that a client is asked to wait if there is no room for its body or session."""
MUCH: Final = 16 * 1024 * 1024
"""Bytes of bodies at the peak, from which on freed memory is given back to the system."""
_SOON: Final = 1.0
"""Seconds after which freed memory is given back, unless it is in use again by then."""
_SELDOM: Final = 5.0
"""Seconds that must pass before memory is given back again."""


class BodyPieces:
    """The pieces of a body as they come.

    Small ones are put together: as an object of its own each takes some fifty bytes more.
    """

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        pieces = self._pieces
        if not pieces or len(piece) >= SMALL:
            pieces.append(piece)
        elif isinstance(last := pieces[-1], bytearray):
            last += piece
        else:
            pieces.append(bytearray(piece))

    def taken(self) -> bytes:
        """Return the body so far, and forget it."""
        pieces, self._pieces = self._pieces, []
        first = pieces[0] if len(pieces) == 1 else b""
        return first if isinstance(first, bytes) and first else b"".join(pieces)


class BodyLoad:
    """Counts the bytes of a body of this `owner` until its request is answered."""

    def __init__(self, bodies: BodyLimit, owner: Owner) -> None:
        self._bodies = bodies
        self.owner = owner
        self.size = 0
        self._counted = 0

    def add(self, size: int) -> bool:
        """Count `size` more bytes; return False if there is no room for them."""
        self.size += size
        if self.size <= SMALL:
            return True
        further = self.size - self._counted
        if not self._bodies.take(further, self.owner):
            return False
        self._counted += further  # nothing else counts if this body was given up to make room
        return True

    def release(self) -> None:
        """Count nothing any more; may be called again."""
        counted, self._counted, self.size = self._counted, 0, 0
        if counted:
            self._bodies.give(counted, self.owner)


class BodyLimit:
    """Limits the bytes of the bodies of one endpoint's requests; each owner has a fair part.

    `make_room` gives up a body that comes too slowly, of one of the owners that it is asked about.
    `give_back` returns free memory to the system.
    """

    def __init__(
        self,
        most: int = MOST,
        give_back: Callable[[], object] = give_back,
    ) -> None:
        self._give_back = give_back
        self.make_room: Callable[[Callable[[Owner], bool]], object] = lambda _: None
        self._peak = 0
        self._is_timed = False
        self._given_back = 0.0
        self._parts = FairParts(most)

    @property
    def held(self) -> int:
        """The bytes of all bodies."""
        return self._parts.taken

    def load(self, owner: Owner = None) -> BodyLoad:
        """Return a new count for the body of one request."""
        return BodyLoad(self, owner)

    def take(self, size: int, owner: Owner) -> bool:
        """Count `size` bytes if there is room for them, and return whether there is.

        Without room a slow body gives way: one of the same owner, or of one that has more.
        """
        parts = self._parts
        if not parts.has_room(owner, size):
            self.make_room(lambda one: one == owner or parts.of(one) > parts.of(owner))
        if not parts.take(owner, size):
            return False
        self._peak = max(self._peak, self.held)
        return True

    def give(self, size: int, owner: Owner) -> None:
        """Free `size` bytes; at half of the peak, memory goes back to the system soon."""
        self._parts.give(owner, size)
        if self._peak >= MUCH and self.held <= self._peak // 2 and not self._is_timed:
            self._is_timed = True
            loop = asyncio.get_running_loop()
            at = max(loop.time() + _SOON, self._given_back + _SELDOM)
            loop.call_at(at, self._collect, loop)

    def _collect(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_timed = False
        if self.held <= self._peak // 2:
            self._peak = self.held
            # Abandoned requests stay in memory, held by their tracebacks, until they are collected.
            gc.collect()
            self._give_back()
            self._given_back = loop.time()


LARGE_MESSAGE: Final = 128 * 1024
"""Bytes above which a message waits for its turn: shorter ones are read within milliseconds."""

_Waited = TypeVar("_Waited")


class MessageReader:
    """Parses messages of all clients over HTTP; `clock` is in seconds.

    Large messages wait for those before them, and until they have used their share of the loop's
    time: a client that sends one after the other delays only the large messages of others.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._budget = TimeBudget(BURST_OF_ALL, SHARE_OF_ALL, clock)
        self._turn = anyio.Lock()
        self._waiting: set[anyio.CancelScope] = set()
        self._has_ended = False

    async def read(self, body: bytes) -> Message | WireError | None:
        """Return the message in `body`, or why it is refused; None if the hub ends first."""
        if len(body) <= LARGE_MESSAGE:
            return _message_in(body)
        return await self.unless_ended(partial(self._in_turn, body))

    async def unless_ended(self, wait: Callable[[], Awaitable[_Waited]]) -> _Waited | None:
        """Return what `wait` returns; None if the hub ends first."""
        if not self._has_ended:
            with anyio.CancelScope() as waiting:
                self._waiting.add(waiting)
                try:
                    return await wait()
                finally:
                    self._waiting.discard(waiting)
        return None

    async def _in_turn(self, body: bytes) -> Message | WireError:
        async with self._turn:
            await anyio.sleep(self._budget.debt())
            began = self._clock()
            found = _message_in(body)
            self._budget.spend(self._clock() - began)
            return found

    def end(self) -> None:
        """Let nobody wait any more."""
        self._has_ended = True
        for waiting in self._waiting:
            waiting.cancel()


def _message_in(body: bytes) -> Message | WireError:
    try:
        return parse_client(body)
    except WireError as exc:
        return exc
