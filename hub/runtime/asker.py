"""The client as a child sees it while it serves one of the client's calls."""

from __future__ import annotations

from dataclasses import dataclass

from hub.core.specs import ServerSpec
from hub.core.values import JsonObject, SessionKey
from hub.runtime import wire
from hub.runtime.mailbox import Mailbox
from hub.runtime.peer import Outlet
from hub.runtime.session import Session
from hub.runtime.strict_json import RequestId
from hub.runtime.waiting import Progress
from hub.runtime.wire import Notification, Payload


@dataclass(slots=True, eq=False)
class CallAsker:
    """The client on whose behalf a call runs; it is reached through the call's own outlet.

    `token` is what it wants progress reported under, if it does.
    """

    owner: Session
    outlet: Outlet
    token: RequestId | None
    mailbox: Mailbox | None = None

    @property
    def session(self) -> SessionKey:
        """Whose call it is."""
        return self.owner.key

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the client gave no token."""
        return None if self.token is None else self._report

    async def _report(self, params: Payload) -> None:
        own: JsonObject = {**wire.as_object(params), "progressToken": self.token}
        told = Notification("notifications/progress", own)
        self.owner.audience.send(told, self.outlet, self._own_mailbox())

    @property
    def log_level(self) -> str | None:
        """What the client set, or a modern one wants of this call."""
        return self.owner.audience.log_level

    async def ask(self, method: str, params: JsonObject) -> Payload:
        """Pass a child's request on to the client, within the call."""
        return await self.owner.audience.ask(method, params, self.outlet)

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass a notification on to the client, within the call."""
        self.owner.audience.tell(spec, notification, self.outlet, self._own_mailbox())

    def _own_mailbox(self) -> Mailbox:
        if self.mailbox is None:
            self.mailbox = self.owner.audience.mailbox_of_call()
        return self.mailbox

    @property
    def has_told_all(self) -> bool:
        """Whether nothing waits that is to reach the client before the answer."""
        return self.mailbox is None or self.mailbox.is_empty

    async def flush(self) -> None:
        """Return once all that the child said so far is on its way to the client."""
        if self.mailbox is not None:
            await self.mailbox.flush()
