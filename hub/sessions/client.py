"""One client: what it declared (`Client`), and how its children reach it (`ClientNotifier`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from msgspec import Struct

from hub.catalog.resource_uris import wrapped
from hub.children.clients import reaches
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.messages import Notification, Payload, size_of
from hub.jsonrpc.peer import Outlet, Peer
from hub.jsonrpc.requests import RequestOwner, without_token
from hub.jsonrpc.send_queue import SendQueue
from hub.protocol.constants import INTERNAL_ERROR, LIST_CHANGED, METHOD_NOT_FOUND
from hub.protocol.input_requests import ELICITED, accepts, mode_of
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import Json, JsonObject, ServerName, object_or_empty

RELAYED = ("sampling", "elicitation")
"""Client capabilities that children may use through the hub."""
MAX_ELICITED, LONGEST_ID = 256, 1024
"""Number of URL elicitations whose completion is passed on; the oldest are forgotten first. And the
characters of their ids, which children write."""


class Client(Struct, frozen=True):
    """The data that a client declared in its handshake or, if modern, in its request."""

    era: Literal["legacy", "modern"]
    version: str
    capabilities: JsonObject
    info: JsonObject

    @property
    def is_modern(self) -> bool:
        """Whether the client speaks a version without a handshake (see `MODERN_VERSIONS`)."""
        return self.era == "modern"

    def declares(self, capability: str) -> bool:
        """Return whether the client declared a capability, such as `roots`.

        Any value except null and false counts: a client that declares roots in a wrong form must
        not be treated as a client without roots.
        """
        value = self.capabilities.get(capability)
        return value is not None and value is not False

    def declared(self, capabilities: Iterable[str]) -> JsonObject:
        """Return the declared ones among `capabilities`, with their values."""
        return {
            name: object_or_empty(self.capabilities[name])
            for name in capabilities
            if self.declares(name)
        }


def require_taken(client: Client | None, method: str, params: JsonObject) -> None:
    """Check that a client accepts a child's request.

    Raises: RpcError if it does not, or if there is no client.
    """
    if client is None or not accepts(client.capabilities, method, params):
        what = mode_of(method, params)
        raise RpcError(METHOD_NOT_FOUND, f"the client does not support {what}")


class Addressee(Protocol):
    """The client and its peer; None until the client is known or can be reached."""

    client: Client | None
    peer: Peer | None


class ClientNotifier:
    """Passes the requests and notifications of children on to one client.

    `log_level` is the level that the client set, for a modern client that of its request.
    `subscriptions` maps a server and its own resource URI to the URI that the client knows.
    `listening` gets the notifications for a modern client that has a listen stream.
    """

    def __init__(self, addressee: Addressee, tasks: TaskStarter) -> None:
        self.log_level: str | None = None
        self.listening: Callable[[ServerSpec, Notification], None] | None = None
        self.subscriptions: dict[tuple[ServerName, str], str] = {}
        self.send_queue = SendQueue(tasks)
        self._elicited: deque[str] = deque(maxlen=MAX_ELICITED)
        self._addressee = addressee

    async def ask(
        self,
        method: str,
        params: JsonObject,
        outlet: Outlet | None,
        request_owner: RequestOwner | None = None,
    ) -> Payload:
        """Return the client's result of a child's request, made on behalf of `request_owner`.

        Raises: RpcError if the client does not accept it, answers with an error, or is gone.
        """
        client, peer = self._addressee.client, self._addressee.peer
        # A modern client cannot be sent requests: it is asked by the result of its own request.
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
        """Remember the id of a URL elicitation, so that its completion is passed on."""
        if isinstance(elicitation, str) and len(elicitation) <= LONGEST_ID:
            self._elicited.append(elicitation)

    def tell(
        self,
        spec: ServerSpec,
        notification: Notification,
        outlet: Outlet | None = None,
        send_queue: SendQueue | None = None,
    ) -> None:
        """Pass a child's notification on to the client, if the client wants it."""
        client = self._addressee.client
        if client is None:
            return
        if client.is_modern:
            if self.listening is not None:
                self.listening(spec, notification)
                return
            # Only log messages of its own request, and only if the request asks for them.
            if outlet is not None and self.log_level and self._is_wanted_log(notification):
                self.send(notification, outlet, send_queue)
            return
        wanted = self._as_told(spec, notification)
        if wanted is not None:
            self.send(wanted, outlet, send_queue)

    def _as_told(self, spec: ServerSpec, notification: Notification) -> Notification | None:
        """Return the notification for a legacy client; None if it is not for it."""
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
        """Return the client's URI of an updated resource; None if the client did not subscribe.

        A server may also report resources below a subscribed one.
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
        send_queue: SendQueue | None = None,
    ) -> None:
        """Queue a notification for the client, in `send_queue` or else in its own queue."""
        peer = self._addressee.peer
        if peer is not None:
            method, params = notification.method, notification.params
            box = send_queue or self.send_queue
            box.put(lambda: peer.notify(method, params, outlet=outlet), size_of(params))

    def _is_wanted_log(self, notification: Notification) -> bool:
        if notification.method != "notifications/message":
            return False
        if self.log_level is None:
            return True
        return reaches(messages.as_object(notification.params).get("level"), self.log_level)
