"""Who is on the client side of a child: the one whose call is served, those who only listen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from hub.core.specs import ServerSpec
from hub.core.values import JsonObject, SessionKey
from hub.runtime.wire import Notification, Payload


class Asker(Protocol):
    """On whose behalf a call is made: who can be asked and told things while it runs."""

    @property
    def session(self) -> SessionKey:
        """Whose call it is."""
        ...

    @property
    def progress(self) -> Callable[[Payload], Awaitable[None]] | None:
        """Where progress reports go; None if the client wants none."""
        ...

    @property
    def log_level(self) -> str | None:
        """From which level on the client wants to read what the child logs; None: not said."""
        ...

    async def ask(self, method: str, params: JsonObject) -> Payload:
        """Pass a child's request on to the client.

        Raises: RpcError if the client does not take it.
        """
        ...

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass on a notification that came while the call ran."""
        ...


class Lessee(Protocol):
    """Somebody who uses a child and wants to know what it says between calls."""

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        """Take a notification that belongs to no call."""
        ...

    async def came(self, spec: ServerSpec) -> None:
        """Take note that the child answers calls now."""
        ...
