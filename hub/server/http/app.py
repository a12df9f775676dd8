"""The ASGI application of the HTTP endpoint: legacy sessions, and modern requests on their own.

MCP 2025-11-25, "Transports", and its 2026-07-28 successor. A POST is answered with plain JSON if
the result is the first message to send, else with an event stream from the first message on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from functools import partial

import anyio
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from hub.calls.audit_trail import called_in
from hub.jsonrpc import messages
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Message, Request, to_bytes
from hub.protocol.constants import CALLS, MODERN_VERSIONS
from hub.server.connection import ConnectionFactory
from hub.server.http.access import AccessCheck, Refusal, RequestHeaders
from hub.server.http.adoption import SessionIds
from hub.server.http.auth.admission import Admission
from hub.server.http.bounds.bodies import MOST, BodyLimit, BodyLoad, MessageReader
from hub.server.http.bounds.connections import CONNECTION, RefusalLog
from hub.server.http.bounds.forwarded import Proxies
from hub.server.http.fast_calls import PATIENCE, FastCallAcceptor, PostedRequest, answer_post
from hub.server.http.legacy.http_session import SessionPost
from hub.server.http.legacy.sessions import LegacyRequests, LegacySessions, Sender
from hub.server.http.modern import (
    MAX_UNDERWAY,
    ModernPost,
    ModernPosts,
    is_new,
    rejection,
    status_of,
)
from hub.server.http.open_requests import OpenRequests
from hub.server.http.request_heads import CheckedHeaders, HeaderChecks, RequestHead, unreadable
from hub.server.http.responses import (
    ENDING,
    HUB_ENDS,
    METHODS,
    NO_ROOM,
    NOT_BEGUN,
    UNKNOWN_VERSION,
    asks_first,
    counted,
    is_known,
    not_allowed,
    read_body,
    readable,
    refuse_for_now,
    respond,
)
from hub.system.tasks import IndependentTasks, TaskStarter
from hub.usage.principals import ClientUsage, OverLimit, RefusedCall, UsageByPrincipal
from hub.values import JsonObject

SESSION_IDLE = 30 * 60.0
"""Seconds without a request in flight after which a session ends."""

NO_TOKEN = "the token that the session was opened with is not valid any more"  # noqa: S105 - says why
"""Why requests under way are given up when the token of their client ends."""


class HttpLimits(Struct, frozen=True):
    """How much all clients may have: sessions, modern requests under way, bytes of bodies.

    `patience`: seconds after which a task waits for the answer to a plain call.
    """

    sessions: int = 10_000
    session_idle: float = SESSION_IDLE
    underway: int = MAX_UNDERWAY
    bodies: int = MOST
    patience: float = PATIENCE


class _Posted(Struct, frozen=True):
    """What a POST brought: a message of `size` bytes, or why it is refused; and who sent it."""

    admission: Admission
    message: Message | WireError
    size: int


class HttpServer:
    """The ASGI application of the endpoint; `run` must have started before it serves.

    `acceptor` takes plain calls from connections that can do without the application.
    `is_draining`: no session is opened any more; `begins_requests`: other new requests are begun.
    A response without its answer after `poll_after` seconds (0: never) is ended for its client to
    come back, if the client's revision allows that. `ids` makes and opens the ids of sessions;
    without it they end with the process. `usage` has the limits of principals.
    """

    is_draining = False
    begins_requests = True
    _tasks: TaskStarter | None = None

    def __init__(  # noqa: PLR0913 - each is one thing it cannot do without
        self,
        open_connection: ConnectionFactory,
        gatekeeper: AccessCheck,
        *,
        path: str,
        clock: Callable[[], float] = time.monotonic,
        limits: HttpLimits | None = None,
        poll_after: float = 0,
        proxies: Proxies | None = None,
        ids: SessionIds | None = None,
        usage: UsageByPrincipal | None = None,
    ) -> None:
        self._limits = limits or HttpLimits()
        self.log, self._reader = RefusalLog(), MessageReader()
        self.bodies, self.proxies = BodyLimit(self._limits.bodies), proxies or Proxies()
        self._usage = usage or UsageByPrincipal()
        self._gatekeeper = gatekeeper
        self._modern_posts = ModernPosts(open_connection, self._limits.underway)
        checks = self._header_checks = HeaderChecks(gatekeeper, path, self.proxies)
        self._open_requests = OpenRequests(gatekeeper, checks, path, self._refuse)
        self._patience = Deadlines(self._limits.patience)
        self.acceptor = FastCallAcceptor(
            checks,
            self._plain_post,
            self._patience,
            bodies=self.bodies,
            no_room=self._no_room,
            usage=self._usage,
        )
        self._sessions = LegacySessions(
            open_connection,
            ids or SessionIds.of_this_process(),
            clock=clock,
            most=self._limits.sessions,
            poll_after=poll_after,
            usage=self._usage,
        )
        self._legacy = LegacyRequests(self._sessions, self.log, self._patience)
        gatekeeper.ended, gatekeeper.profiles_changed = self._end_access, self._interrupt

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Own the sessions until cancelled, and expire idle sessions and old events."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = self._legacy.tasks = IndependentTasks(tasks)
                tasks.start_soon(self._gatekeeper.keep_fresh)
                tasks.start_soon(self._gatekeeper.end_in_time)
                task_status.started()
                await self._expire()
        finally:
            self._tasks = self._legacy.tasks = None
            self.end_answers()
            self._sessions.forget()

    def drain(self) -> None:
        """Open no session any more."""
        self.is_draining, self._legacy.tasks = True, None

    def refuse_requests(self) -> None:
        """Begin no request any more: what is in progress goes on, with its clients' answers."""
        self.begins_requests = False

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress, other than streams of notifications."""
        return self._modern_posts.is_busy or self._sessions.is_busy

    def end_streams(self) -> None:
        """End the notification streams of all clients, which would otherwise never end."""
        self._modern_posts.end_listening()
        for session in self._sessions:
            session.notification_stream.end()

    def end_answers(self) -> None:
        """Give up the requests under way: each is answered with an error that says so."""
        self._modern_posts.end()
        self._reader.end()
        for session in self._sessions:
            session.connection.end(ENDING)

    def _end_access(self, principals: Container[str]) -> None:
        """End what depends on tokens that are not valid any more.

        Who has another token by now keeps its sessions, and opens its streams anew with that one.
        """
        self._modern_posts.end_listening(principals)
        ended = [one for one in self._sessions if one.principal in principals]
        for session in ended:
            session.notification_stream.interrupt()
        gone = {one.principal for one in ended if not self._gatekeeper.knows(one.principal)}
        self._sessions.end_of(gone, NO_TOKEN)

    def _interrupt(self) -> None:
        """End the streams of all clients, which open them anew if they still may."""
        self._modern_posts.end_listening()
        for session in self._sessions:
            session.notification_stream.interrupt()

    async def _expire(self) -> None:
        while True:
            await anyio.sleep(self._limits.session_idle / 60)
            self._sessions.expire(self._limits.session_idle)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            return
        headers = RequestHeaders(scope["headers"])
        if scope["path"] == "/health":
            healthy = not self.is_draining
            told: JsonObject = {"status": "ok" if healthy else "ending"}
            await respond(send, 200 if healthy else 503, told)
            return
        origin = self._gatekeeper.shared_with(headers)
        if origin is not None:
            send = readable(send, origin)
        if origin is not None and asks_first(scope["method"], headers):
            await self._open_requests.permit(scope, headers, send)
            return
        if await self._open_requests.serve(scope, headers, receive, send):
            return
        admitted = await self._header_checks.admission(scope, headers)
        if isinstance(admitted, Refusal):
            await self._refuse(self._header_checks.client(scope, headers), admitted, send)
            return
        sender = Sender(admitted, self._header_checks.client(scope, headers))
        connection = scope.get("state", {}).get(CONNECTION)
        if connection is not None:
            connection.prove(sender.owner)
        await self._serve(scope, headers, sender, receive, send)

    async def _refuse(self, client: str, refusal: Refusal, send: Send) -> None:
        self.log.note(f"request refused: {refusal.status}", client, refusal.text)
        await respond(send, refusal.status, {"error": refusal.text}, refusal.headers)

    async def _no_room(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = RequestHeaders(scope["headers"])
        await self._refuse(self._header_checks.client(scope, headers), NO_ROOM, send)

    async def _serve(
        self, scope: Scope, headers: RequestHeaders, sender: Sender, receive: Receive, send: Send
    ) -> None:
        """Serve a request that has passed the access checks."""
        if scope["method"] != "POST":
            await self._other(scope, headers, sender, receive, send)
            return
        refusal = unreadable(headers)
        if refusal is not None:
            await self._refuse(sender.address, refusal, send)
            return
        load = self.bodies.load(sender.owner)
        try:
            read = await self._read(scope, headers, sender, receive, load)
            if isinstance(read, Refusal):
                await self._refuse(sender.address, read, send)
            elif read is not None:
                await self._post(headers, sender.address, read, receive, send)
        finally:
            load.release()

    async def _read(
        self,
        scope: Scope,
        headers: RequestHeaders,
        sender: Sender,
        receive: Receive,
        load: BodyLoad,
    ) -> _Posted | Refusal | None:
        """Return what a POST brought, and who sent it by now; None if the client has gone."""
        since = self._gatekeeper.changes
        announced = int(headers.get("content-length") or 0)
        try:
            body = await self._reader.unless_ended(partial(read_body, receive, load, announced))
        except GoneError:
            return None
        if isinstance(body, Refusal):
            return body
        message = None if body is None else await self._reader.read(body)
        if body is None or message is None:
            return HUB_ENDS
        checks = self._header_checks
        found = await checks.admitted_still(scope, headers, sender.admission, since)
        return found if isinstance(found, Refusal) else _Posted(found, message, len(body))

    async def _other(
        self, scope: Scope, headers: RequestHeaders, sender: Sender, receive: Receive, send: Send
    ) -> None:
        """Serve a request that is no POST."""
        usage = self._usage.of(sender.principal, sender.admission.profile)
        if usage is not None:
            send = counted(send, usage)
        method, version = scope["method"], headers.get("mcp-protocol-version")
        if not is_known(version):
            await respond(send, 400, UNKNOWN_VERSION)
        elif version in MODERN_VERSIONS or method not in {"GET", "DELETE"}:
            await not_allowed(send, METHODS)
        elif method == "GET":
            await self._legacy.get(headers, sender, receive, send)
        else:
            await self._legacy.delete(headers, sender, send)

    async def _post(
        self, headers: RequestHeaders, address: str, posted: _Posted, receive: Receive, send: Send
    ) -> None:
        sender, message = Sender(posted.admission, address), posted.message
        checked = CheckedHeaders.by(headers, sender.admission, address)
        if isinstance(message, WireError):
            await respond(send, 400, to_bytes(messages.failure_of(message)))
            return
        if not self.begins_requests and is_new(message):
            await refuse_for_now(503, NOT_BEGUN, message, send)
            return
        usage = self._usage.of(sender.principal, sender.admission.profile)
        if usage is not None:
            over = self._over_limit(usage, message, headers, sender)
            if over is not None:
                await refuse_for_now(429, over, message, send)
                return
            usage.carried(posted.size)
            send = counted(send, usage)
        if checked.is_legacy(message):
            await self._legacy.post(message, headers, sender, receive, send)
        else:
            await self._modern(message, checked, headers, receive, send)

    def _over_limit(
        self, usage: ClientUsage, message: Message, headers: RequestHeaders, sender: Sender
    ) -> OverLimit | None:
        """Count a message if it is a call; return why its principal has to wait with it, or None.

        Only requests have to: a notification or an answer may end what is under way.
        """
        is_call = isinstance(message, Request) and message.method in CALLS
        over = usage.objection(is_call=is_call) if isinstance(message, Request) else None
        if over is None:
            if is_call:
                usage.called()
            return None
        self.log.note("request refused: 429", sender.address, over.why)
        if isinstance(message, Request) and is_call:
            admission, named = sender.admission, called_in(message)
            session = self._sessions.find(headers.get("mcp-session-id"), admission.identity)
            key = "" if session is None else session.connection.session.key
            self._usage.refused(
                RefusedCall(admission.principal, admission.profile, key, named, over.why)
            )
        return over

    def _plain_post(self, request: Request, head: RequestHead) -> PostedRequest | None:
        """Return how a call is answered; None if a task must answer with an error."""
        if not self.begins_requests:
            return None
        if head.checked.is_legacy(request):
            admission = head.checked.admission
            session = self._sessions.find(head.session, admission.identity)
            return None if session is None else SessionPost(session, request, admission.scopes)
        if self._tasks is None or rejection(request, head.checked.told) is not None:
            return None
        admission = head.checked.admission
        posts = self._modern_posts
        return ModernPost(posts, admission, request, head.fields, self._tasks, head.owner)

    async def _modern(
        self,
        message: Message,
        checked: CheckedHeaders,
        headers: RequestHeaders,
        receive: Receive,
        send: Send,
    ) -> None:
        if not isinstance(message, Request):
            known = is_known(checked.told.version)
            await (respond(send, 202, b"") if known else respond(send, 400, UNKNOWN_VERSION))
            return
        refused = rejection(message, checked.told)
        if refused is not None:
            await respond(send, status_of(refused), to_bytes(refused))
            return
        if self._tasks is None:
            await respond(send, HUB_ENDS.status, {"error": HUB_ENDS.text})
            return
        admission, posts = checked.admission, self._modern_posts
        owner = checked.owner_at("")
        post = ModernPost(posts, admission, message, headers.fields, self._tasks, owner)
        await answer_post(post, receive, post.response(send), self._patience)
