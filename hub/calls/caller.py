"""The client of one call, as the child sees it: who is asked, and told of progress and logs.

A legacy client is asked by a request within the call. A modern client is asked by the call's
result: a modern child's requests are passed on, and the child is called again with the answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio
from msgspec import Struct

from hub.children.clients import InputNeededError
from hub.jsonrpc import messages
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.requests import UNSAID, Progress, RequestOwner
from hub.jsonrpc.send_queue import SendQueue
from hub.protocol.constants import INTERNAL_ERROR, MISSING_CLIENT_CAPABILITY
from hub.protocol.input_requests import (
    ELICITATION,
    ELICITED,
    NO_RETRY,
    NO_STATE,
    URL_NEEDED,
    CallState,
    ChildInputRound,
    RetryInput,
    accepts,
    in_legacy_words,
    in_modern_words,
    is_url,
    mode_of,
    needed,
    outward,
    urls_needed,
)
from hub.sessions.client import Client, ClientNotifier
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import JsonObject, SessionKey, object_or_empty

PAUSES: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Seconds before a child that asked for no input is called again, by round; the last repeats."""


class ClientCaller(Struct, eq=False):
    """The client that a call is made for. It is reached through the outlet of the call's request.

    `owner` is the client's session. `token` is the progress token of the request, if it has one.
    `tasks` run the call's send queue; they outlive the request. `retry` is what the request brought
    from the previous round. `consented` is the digest of what the user has agreed to in this call.
    `reason` is why the call was cancelled, for the child.
    """

    owner: Session
    outlet: Outlet
    token: RequestId | None
    tasks: TaskStarter
    send_queue: SendQueue | None = None
    retry: RetryInput = NO_RETRY
    consented: str | None = None
    reason: str = UNSAID
    _pauses: int = 0
    _sent_to: tuple[str, ...] = ()

    @property
    def session(self) -> SessionKey:
        """The session that the call belongs to."""
        return self.owner.key

    @property
    def party(self) -> SessionKey:
        """The client connection that would answer a request of the child."""
        return self.owner.party

    @property
    def queue_key(self) -> str:
        """The key by which its calls take turns with those of other clients."""
        return self.owner.queue_key

    @property
    def asks(self) -> JsonObject:
        """The client's capabilities that children may use."""
        return self.owner.asks()

    @property
    def is_present(self) -> bool:
        """Whether a request of the client waits for this call now; always true here."""
        return True

    @property
    def progress(self) -> Progress | None:
        """The function that takes progress reports; None if the client gave no token."""
        return None if self.token is None else self.report

    async def report(self, params: Payload) -> None:
        """Send a progress report to the client, with the client's own token."""
        own: JsonObject = {**messages.as_object(params), "progressToken": self.token}
        told = Notification("notifications/progress", own)
        self.owner.notifier.send(told, self.outlet, self._own_mailbox())

    @property
    def log_level(self) -> str | None:
        """The log level that the client set, for all calls or (if modern) for this request."""
        return self.owner.notifier.log_level

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Send a child's request to the client within the call, and return the client's answer."""
        return await self.owner.notifier.ask(method, params, self.outlet, request_owner)

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        """Return the client's answers, by key, to the requests in a modern child's result.

        Without requests, return after a pause: the child only wants to be called again.

        Raises: InputNeededError for a modern client; RpcError if the client does not support one
            of the requests, or answers with an error.
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
        """Send a child's notification to the client, within the call."""
        self.owner.notifier.tell(spec, notification, self.outlet, self._own_mailbox())

    def done(self) -> None:
        """Notify a legacy client that the URL elicitations of this call are complete."""
        for elicitation in self._sent_to:
            told = Notification(ELICITED, {"elicitationId": elicitation})
            self.owner.notifier.send(told, self.outlet, self._own_mailbox())
        self._sent_to = ()

    def _own_mailbox(self) -> SendQueue:
        if self.send_queue is None:
            self.send_queue = SendQueue(self.tasks)
        return self.send_queue

    @property
    def has_told_all(self) -> bool:
        """Whether no message of this call waits to be sent before the answer."""
        return self.send_queue is None or self.send_queue.is_empty

    async def flush(self) -> None:
        """Return once all messages to the client so far are sent."""
        if self.send_queue is not None:
            await self.send_queue.flush()


async def ask_within(
    ask: Callable[[str, JsonObject], Awaitable[Payload]], request: JsonObject
) -> tuple[JsonObject, str | None]:
    """Send one request of a modern child to a legacy client; return the answer.

    Also return the elicitation id if the user accepted to open a URL, or else None.

    Raises: RpcError, as `ask` does.
    """
    method, params = str(request.get("method")), object_or_empty(request.get("params"))
    elicitation = secrets.token_hex(16)
    answer = messages.as_object(await ask(method, in_legacy_words(method, params, elicitation)))
    is_sent = method == ELICITATION and is_url(params) and answer.get("action") == "accept"
    return answer, elicitation if is_sent else None


def ask_by_result(
    client: Client,
    spec: ServerSpec,
    requests: Mapping[str, JsonObject],
    state: CallState,
) -> InputNeededError:
    """Return the error that asks a modern client, by the call's result, for a modern child's input.

    Raises: RpcError if the client does not support one of the requests.
    """
    for request in requests.values():
        method, params = str(request.get("method")), object_or_empty(request.get("params"))
        if not accepts(client.capabilities, method, params):
            raise RpcError(
                MISSING_CLIENT_CAPABILITY,
                f"server {spec.name!r} asks for {mode_of(method, params)}, which the client does "
                "not declare",
                {"requiredCapabilities": needed(method, params)},
            )
    asked: JsonObject = {outward(key): request for key, request in requests.items()}
    return InputNeededError(asked, state, lasts=spec.timeout)


def send_to_urls(
    client: Client | None,
    notifier: ClientNotifier,
    spec: ServerSpec,
    error: RpcError,
    state: CallState = NO_STATE,
) -> None:
    """Prepare the client to open the URLs in a child's `URL_NEEDED` error; ignore other errors.

    A legacy client gets the error itself, and a notification when the elicitation is complete.
    The modern era has no such error.

    Raises: InputNeededError for a modern client that supports URLs; its retry is the next attempt.
        RpcError for one that does not, or if the error has no URL.
    """
    if client is None or error.code != URL_NEEDED:
        return
    wanted = urls_needed(error.data)
    if not client.is_modern:
        for one in wanted:
            notifier.sent_to(one.get("elicitationId"))
        return
    if not wanted:
        raise RpcError(INTERNAL_ERROR, str(error))
    requests: dict[str, JsonObject] = {}
    for number, one in enumerate(wanted, 1):
        params = in_modern_words(ELICITATION, {**one, "mode": "url"})
        requests[f"url/{number}"] = {"method": ELICITATION, "params": params}
    raise ask_by_result(client, spec, requests, state)
