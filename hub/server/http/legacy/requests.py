"""The requests of legacy clients: POSTs, streams that a GET opens, and a DELETE at the end.

MCP 2025-11-25, "Transports", "Streamable HTTP", and the revisions before it.
"""

from __future__ import annotations

import anyio
from starlette.types import Receive, Send

from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.messages import Failure, Message, Request, to_bytes
from hub.protocol.constants import INVALID_REQUEST
from hub.server.connection import client_of_handshake
from hub.server.http.access import RequestHeaders
from hub.server.http.bounds.bodies import RETRY_AFTER
from hub.server.http.bounds.refusal_log import RefusalLog
from hub.server.http.fast_calls import answer_post
from hub.server.http.legacy.http_session import HttpSession, SessionPost
from hub.server.http.legacy.legacy_sessions import LegacySessions, NoRoomForSession, Sender
from hub.server.http.responses import ENDING, PostResponse, answer_in, refuse_for_now, respond
from hub.system.tasks import TaskStarter

DELETED = "the session was ended by its client"
"""Why requests under way are given up when the client deletes its session."""


class LegacyRequests:
    """Answers requests that have passed the access checks, each in the session that it names.

    `tasks` is the group of the sessions that are opened; None: none is opened now.
    """

    tasks: TaskStarter | None = None

    def __init__(self, sessions: LegacySessions, log: RefusalLog, patience: Deadlines) -> None:
        self._sessions = sessions
        self._log = log
        self._patience = patience

    async def post(
        self,
        message: Message,
        headers: RequestHeaders,
        sender: Sender,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a POST; `initialize` without a session opens one."""
        key = headers.get("mcp-session-id")
        if isinstance(message, Request) and message.method == "initialize" and key is None:
            await self._open(message, sender, receive, send)
            return
        session = await self._session(headers, sender, message, send)
        if session is None:
            return
        if isinstance(message, Request):
            post = SessionPost(session, message, sender.admission.scopes)
            response = post.response(send)
            with session.in_use():
                if headers.prefers_stream and not post.may_be_forbidden:
                    await response.begin()
                await answer_post(post, receive, response, self._patience)
        else:
            await session.connection.peer.receive(message)
            await respond(send, 202, b"")

    async def get(
        self, headers: RequestHeaders, sender: Sender, receive: Receive, send: Send
    ) -> None:
        """Answer a GET: the notification stream, or what is left of a stream that was lost."""
        if not headers.accepts("text/event-stream"):
            await respond(send, 406, {"error": "Accept must name text/event-stream"})
            return
        session = await self._session(headers, sender, None, send)
        if session is None:
            return
        seen = headers.get("last-event-id")
        with session.in_use():
            async with anyio.create_task_group() as tasks:
                end = tasks.cancel_scope.cancel
                if session.is_standing(seen):
                    end = session.notification_stream.interrupt
                tasks.start_soon(sender.admission.when_expired, end)
                await session.listen(seen, receive, send)
                tasks.cancel_scope.cancel()

    async def delete(self, headers: RequestHeaders, sender: Sender, send: Send) -> None:
        """Answer a DELETE: end the session."""
        key = headers.get("mcp-session-id")
        if await self._session(headers, sender, None, send) is not None and key is not None:
            self._sessions.end(key, DELETED)
            await respond(send, 200, b"")

    async def _session(
        self, headers: RequestHeaders, sender: Sender, message: Message | None, send: Send
    ) -> HttpSession | None:
        """Return the session that a request names, which may be one of an earlier process.

        Without one, send an error and return None.
        """
        key = headers.get("mcp-session-id")
        session: HttpSession | NoRoomForSession | None
        session = self._sessions.find(key, sender.admission.identity)
        if session is None and key is not None:
            session = await self._adopted(key, sender)
        if isinstance(session, NoRoomForSession):
            await self._refuse_session(sender, session, message, send)
            return None
        if session is None:
            status, text = (
                (400, "Mcp-Session-Id is missing")
                if key is None
                else (404, "There is no such session")
            )
            id_ = message.id if isinstance(message, Request) else None
            failure = Failure(
                id_, {"code": INVALID_REQUEST, "message": f"{text}: initialize a session first"}
            )
            await respond(send, status, to_bytes(failure))
        return session

    async def _adopted(self, key: str, sender: Sender) -> HttpSession | NoRoomForSession | None:
        if self.tasks is None:
            return NoRoomForSession(ENDING)
        return await self._sessions.adopted(key, sender, self.tasks)

    async def _refuse_session(
        self, sender: Sender, refused: NoRoomForSession, message: Message | None, send: Send
    ) -> None:
        why, again = refused.why, {"retry-after": str(RETRY_AFTER)}
        self._log.note("session refused", sender.address, why)
        if refused.over is not None:
            await refuse_for_now(refused.over, message, send)
            return
        await respond(send, 503, {"error": f"{why}; try again later"}, again)

    async def _open(self, request: Request, sender: Sender, receive: Receive, send: Send) -> None:
        if self.tasks is None:
            await self._refuse_session(sender, NoRoomForSession(ENDING), request, send)
            return
        opened = self._sessions.opened(client_of_handshake(request.params), sender, self.tasks)
        if isinstance(opened, NoRoomForSession):
            await self._refuse_session(sender, opened, request, send)
            return
        key, session = opened
        response = PostResponse(send, {"mcp-session-id": key})
        try:
            await answer_in(session.connection, request, receive, response)
        finally:
            if session.connection.session.client is None or not response.has_result:
                self._sessions.end(key)
