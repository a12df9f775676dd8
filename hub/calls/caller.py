"""The client as a child sees it while it serves one of the client's calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from hub.calls.era_bridge import ask_by_result, ask_within
from hub.children.clients import Stoppable
from hub.jsonrpc import messages
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.outgoing import UNSAID, Progress, RequestOwner, token_in
from hub.jsonrpc.peer import Asked, Outlet
from hub.jsonrpc.send_queue import SendQueue
from hub.protocol.input_requests import ELICITED
from hub.protocol.request_state import NO_RETRY, CallState, ChildInputRound, RetryInput
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import JsonObject, SessionKey

PAUSES: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Seconds before a child is called again that asks for nothing else; the last one stays."""


class ClientCaller(Struct, eq=False):
    """The client on whose behalf a call runs; it is reached through the call's own outlet.

    `token` is what it wants progress reported under, if it does. `retry` is what its request
    brought from the round before, `consented` what its user has agreed to in this call. `tasks` are
    for what goes out within it, where they are not those of the owner, whose own call may be over.
    `asked` is the request if a task serves it. `for_roots` is what gives the call up if its client
    has to be asked for its roots.
    """

    owner: Session
    outlet: Outlet
    token: RequestId | None
    mailbox: SendQueue | None = None
    retry: RetryInput = NO_RETRY
    consented: str | None = None
    tasks: TaskGroup | None = None
    asked: Asked | None = None
    for_roots: Stoppable | None = None
    _pauses: int = 0
    _sent_to: tuple[str, ...] = ()

    @classmethod
    def of(cls, owner: Session, asked: Asked, retry: RetryInput) -> ClientCaller:
        """Return who asks for a call that a task serves."""
        outlet, token = asked.outlet, token_in(asked.request.params)
        return ClientCaller(owner, outlet, token, retry=retry, asked=asked)

    @property
    def session(self) -> SessionKey:
        """Whose call it is."""
        return self.owner.key

    @property
    def party(self) -> SessionKey:
        """Who would answer what is asked."""
        return self.owner.party

    @property
    def asks(self) -> JsonObject:
        """What the client can be asked, as it declares it."""
        return self.owner.asks()

    @property
    def is_present(self) -> bool:
        """Whether the client waits for the call just now."""
        return True

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the client gave no token."""
        return None if self.token is None else self.report

    async def report(self, params: Payload) -> None:
        """Pass a progress report on, under the client's own token."""
        own: JsonObject = {**messages.as_object(params), "progressToken": self.token}
        told = Notification("notifications/progress", own)
        self.owner.notifier.send(told, self.outlet, self._own_mailbox())

    @property
    def reason(self) -> str:
        """What is told of the call when the client takes it back."""
        return UNSAID if self.asked is None else self.asked.reason

    @property
    def log_level(self) -> str | None:
        """What the client set, or a modern one wants of this call."""
        return self.owner.notifier.log_level

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Pass a child's request on to the client, within the call."""
        return await self.owner.notifier.ask(method, params, self.outlet, request_owner)

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        """Return the client's answers to what a modern child asks by its result, by key.

        Raises: InputNeededError for a modern client; RpcError if the client does not take one of
            the requests, or answers it with an error.
        """
        client = self.owner.client
        if client is not None and client.is_modern:
            state = CallState(consented=self.consented, child=round_)
            raise ask_by_result(client, spec, requests, state)
        if not requests:
            pause = PAUSES[min(self._pauses, len(PAUSES) - 1)]
            self._pauses += 1
            await anyio.sleep(pause)
        answers: JsonObject = {}
        for key, request in requests.items():
            answers[key], elicitation = await ask_within(self.ask, request)
            if elicitation is not None:
                self._sent_to += (elicitation,)
        return answers

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass a notification on to the client, within the call."""
        self.owner.notifier.tell(spec, notification, self.outlet, self._own_mailbox())

    def done(self) -> None:
        """Tell a client of the handshake era that what it sent its user to URLs for is done."""
        for elicitation in self._sent_to:
            told = Notification(ELICITED, {"elicitationId": elicitation})
            self.owner.notifier.send(told, self.outlet, self._own_mailbox())
        self._sent_to = ()

    def want_roots(self) -> bool:
        """Give the call up if its client was not asked for its roots."""
        if not self.owner.unasked or self.for_roots is None:
            return False
        self.for_roots.cancel()
        return True

    def _own_mailbox(self) -> SendQueue:
        if self.mailbox is None:
            tasks = self.tasks
            self.mailbox = SendQueue(tasks) if tasks else self.owner.notifier.mailbox_of_call()
        return self.mailbox

    @property
    def has_told_all(self) -> bool:
        """Whether nothing waits that is to reach the client before the answer."""
        return self.mailbox is None or self.mailbox.is_empty

    async def flush(self) -> None:
        """Return once all that the child said so far is on its way to the client."""
        if self.mailbox is not None:
            await self.mailbox.flush()
