"""One client as its children see it: who can be asked, and what it wants to be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from anyio.abc import TaskGroup

from hub.catalog.resource_uris import wrapped
from hub.children.log_levels import reaches
from hub.jsonrpc import messages
from hub.jsonrpc.encoding import size_of
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.outgoing import RequestOwner, without_token
from hub.jsonrpc.peer import GoneError, Outlet, Peer, RpcError
from hub.jsonrpc.send_queue import SendQueue
from hub.protocol.constants import INTERNAL_ERROR, LIST_CHANGED, METHOD_NOT_FOUND
from hub.protocol.input_requests import ELICITED, accepts, mode_of
from hub.sessions.client import Client
from hub.specs import ServerSpec
from hub.values import Json, JsonObject, ServerName

RELAYED = ("sampling", "elicitation")
"""Client capabilities that children may use through the hub."""
MAX_ELICITED = 256
"""How many elicitations' ends a client may wait for; the oldest are forgotten first."""


def require_taken(client: Client | None, method: str, params: JsonObject) -> None:
    """Make sure that a client takes a child's request.

    Raises: RpcError if it does not.
    """
    if client is None or not accepts(client.capabilities, method, params):
        what = mode_of(method, params)
        raise RpcError(METHOD_NOT_FOUND, f"the client does not support {what}")


class Addressee(Protocol):
    """The client, once it has said who it is and can be reached."""

    client: Client | None
    peer: Peer | None


class ClientNotifier:
    """Passes on to one client what children ask and tell.

    `log_level` is what the client set, or a modern one wants of its only request; `subscriptions`
    maps a server and its own URI of a resource to the URI under which the client knows it.
    `listening` takes what a modern client that listens is told.
    """

    def __init__(self, addressee: Addressee, tasks: TaskGroup) -> None:
        self.log_level: str | None = None
        self.listening: Callable[[ServerSpec, Notification], None] | None = None
        self.subscriptions: dict[tuple[ServerName, str], str] = {}
        self.mailbox = SendQueue(tasks)
        self._elicited: deque[str] = deque(maxlen=MAX_ELICITED)
        self._tasks = tasks
        self._addressee = addressee

    def mailbox_of_call(self) -> SendQueue:
        """Return a mailbox for what goes out with one call: nothing else can hold it up."""
        return SendQueue(self._tasks)

    async def ask(
        self,
        method: str,
        params: JsonObject,
        outlet: Outlet | None,
        request_owner: RequestOwner | None = None,
    ) -> Payload:
        """Pass a child's request on to the client, on the child's `request_owner`.

        Raises: RpcError if the client cannot take it, or answers with an error.
        """
        client, peer = self._addressee.client, self._addressee.peer
        # A modern client is asked by its own request's result, which a child's request is not.
        if client is None or peer is None or client.is_modern:
            what = mode_of(method, params)
            raise RpcError(METHOD_NOT_FOUND, f"the client does not support {what}")
        require_taken(client, method, params)
        self.sent_to(params.get("elicitationId"))
        try:
            return await peer.request(
                method,
                without_token(params),
                timeout=None,
                outlet=outlet,
                request_owner=request_owner,
            )
        except GoneError as exc:
            raise RpcError(INTERNAL_ERROR, f"the client is gone: {exc}") from exc

    def sent_to(self, elicitation: Json) -> None:
        """Take note that the client's user is sent to a URL: it will want to hear of the end."""
        if isinstance(elicitation, str):
            self._elicited.append(elicitation)

    def tell(
        self,
        spec: ServerSpec,
        notification: Notification,
        outlet: Outlet | None = None,
        mailbox: SendQueue | None = None,
    ) -> None:
        """Pass a child's notification on to the client, if it is one for clients."""
        client = self._addressee.client
        if client is None:
            return
        if client.is_modern:
            if self.listening is not None:
                self.listening(spec, notification)
                return
            # Of its request alone, and only if that asks for it.
            if outlet is not None and self.log_level and self._is_wanted_log(notification):
                self.send(notification, outlet, mailbox)
            return
        wanted = self._as_told(spec, notification)
        if wanted is not None:
            self.send(wanted, outlet, mailbox)

    def _as_told(self, spec: ServerSpec, notification: Notification) -> Notification | None:
        """Return what a client of the handshake era is told; None if it is not for it."""
        method = notification.method
        if method in LIST_CHANGED or self._is_wanted_log(notification):
            return notification
        if method == ELICITED:
            elicitation = messages.as_object(notification.params).get("elicitationId")
            return notification if elicitation in self._elicited else None
        if method == "notifications/resources/updated":
            params = messages.as_object(notification.params)
            public = self.public_uri(spec.name, str(params.get("uri")))
            if public is not None:
                return Notification(method, {**params, "uri": public})
        return None

    def public_uri(self, server: ServerName, uri: str) -> str | None:
        """Return how the client knows a resource that was updated; None if it did not subscribe.

        A server may tell of what lies in a resource that was subscribed to.
        """
        public = self.subscriptions.get((server, uri))
        if public is not None:
            return public
        for (owner, own), known in self.subscriptions.items():
            if owner == server and uri.startswith(own.rstrip("/") + "/"):
                return uri if known == own else wrapped(server, uri)
        return None

    def send(
        self,
        notification: Notification,
        outlet: Outlet | None = None,
        mailbox: SendQueue | None = None,
    ) -> None:
        """Send a notification to the client when its turn comes."""
        peer = self._addressee.peer
        if peer is not None:
            method, params = notification.method, notification.params
            box = mailbox or self.mailbox
            box.put(lambda: peer.notify(method, params, outlet=outlet), size_of(params))

    def _is_wanted_log(self, notification: Notification) -> bool:
        if notification.method != "notifications/message" or self.log_level is None:
            return notification.method == "notifications/message"
        return reaches(messages.as_object(notification.params).get("level"), self.log_level)
