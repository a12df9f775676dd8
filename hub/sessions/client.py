"""One client: what it declared, what its children send it, what it was refused and granted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, Protocol

from msgspec import Struct

from hub.catalog.names import wrapped
from hub.children.clients import reaches
from hub.guard.consent import Consent
from hub.guard.decide import Refused
from hub.guard.own_files import OWN
from hub.guard.policy import Mode
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.messages import Notification, Payload, size_of
from hub.jsonrpc.peer import Outlet, Peer
from hub.jsonrpc.rated_log import RatedLog
from hub.jsonrpc.requests import RequestOwner, without_token
from hub.jsonrpc.send_queue import SendQueue
from hub.legible import shortened
from hub.protocol.constants import INTERNAL_ERROR, LIST_CHANGED, METHOD_NOT_FOUND
from hub.protocol.input_requests import ELICITED, accepts, mode_of
from hub.roots.roots import Root
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import Call, Json, JsonObject, ServerName, object_or_empty

MAX_DECLARED: Final = 64 * 1024
"""Bytes of the capabilities that a client may declare: sessions and children are kept by them."""
MAX_ELICITED, LONGEST_ID = 256, 1024
"""Number of URL elicitations whose completion is passed on; the oldest are forgotten first. And the
characters of their ids, which children write."""

_FOR_CHILDREN: Final = ("sampling", "elicitation")
_EXTENSIONS: Final = ("io.modelcontextprotocol/ui",)
"""Extensions that need no method of their own at the hub: MCP Apps."""


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

    def relayed(self) -> JsonObject:
        """Return the declared capabilities that children may use through the hub."""
        found: JsonObject = {
            name: object_or_empty(self.capabilities[name])
            for name in _FOR_CHILDREN
            if self.declares(name)
        }
        given = object_or_empty(self.capabilities.get("extensions"))
        extensions: JsonObject = {
            name: one for name in _EXTENSIONS if isinstance(one := given.get(name), dict)
        }
        return {**found, "extensions": extensions} if extensions else found


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


RECENT: Final = 20
"""Number of refusals that are kept."""
LONGEST: Final = 4096
"""Characters of a refused path that are kept or logged, as many as Linux takes."""


class Refusals:
    """The newest refusals of one client's calls; in report mode, calls that would be refused."""

    def __init__(self, log: RatedLog) -> None:
        self._log = log
        self._recent: deque[JsonObject] = deque(maxlen=RECENT)

    @property
    def recent(self) -> list[JsonObject]:
        """The kept refusals, oldest first."""
        return list(self._recent)

    def add(
        self,
        spec: ServerSpec,
        call: Call,
        refused: Refused,
        consent: Consent | None = None,
        told: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Keep a refusal, and log it for the operator, who is `told` more than the client."""
        mode = spec.policy.mode
        details: JsonObject = {
            "server": spec.name,
            "name": shortened(call.name, LONGEST),
            "argument": refused.pointer,
            "path": shortened(refused.path, LONGEST),
            "reason": refused.reason,
            **({} if consent is None else {"consent": consent}),
        }
        # The hub's own files are refused in every mode.
        is_refused = mode is Mode.ENFORCE or refused.reason == OWN
        self._log.warning("refused" if is_refused else "would be refused", **details, **told)
        self._recent.append({**details, "mode": mode.value})


class ConsentGrants:
    """Paths outside the roots that the user allowed, each for one server, to read or to write."""

    def __init__(self) -> None:
        self._places: dict[tuple[ServerName, bool, tuple[str, ...], bool], Root] = {}

    def add(self, server: ServerName, place: Root, *, writes: bool) -> None:
        """Allow a server's tools to use `place`; tools that write need a grant with `writes`."""
        self._places[server, writes, place.parts, place.is_file] = place

    def of(self, server: ServerName, *, writes: bool) -> tuple[Root, ...]:
        """Return the paths granted for a server; with `writes`, only those that may be written."""
        return tuple(
            place
            for (owner, written, _, _), place in self._places.items()
            if owner == server and (written or not writes)
        )
