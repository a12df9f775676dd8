"""Requests of the modern era (2026-07-28): each one has its own envelope, session and roots.

A client's roots come with the retry of the request that needs them, and count for that request
alone unless `roots.reuse` keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
from msgspec import Raw

from hub.calls.modern_calls import KeptAnswer, ModernCalls, client_key_of
from hub.calls.resolve import Relay
from hub.calls.results import UNCACHED, completed, renumbered
from hub.calls.rounds.modern_routes import ModernRoute
from hub.calls.routes import KnownAnswer
from hub.calls.subscriptions import ListenStream
from hub.children.clients import InputNeededError, RootsNeededError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Payload, Request, size_of
from hub.jsonrpc.peer import Asked
from hub.protocol.constants import (
    CALLS,
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    INVALID_PARAMS,
    LISTS,
    LOG_LEVEL_META,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    UNSUPPORTED_VERSION,
)
from hub.protocol.input_requests import ASKABLE, NO_RETRY, ROOTS_KEY, RetryInput, wanting_roots
from hub.protocol.listen_filter import LISTEN
from hub.sessions.client import MAX_DECLARED, Client
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.system.tasks import TaskStarter
from hub.values import Json, JsonObject, object_or_empty

_CHANGES: Final[JsonObject] = {"listChanged": True}
CAPABILITIES: Final[JsonObject] = {
    "tools": _CHANGES,
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": _CHANGES,
    "completions": {},
    "logging": {},
}
"""The server capabilities that the hub declares, in both eras."""
GREETING_GRACE: Final = 1.0
"""Seconds that `initialize` and `server/discover` wait for children to start (single client)."""


class Modern:
    """Serves the modern requests of one connection; `session` is the connection's own session.

    `headers` are the HTTP headers of its only request, names in lower case; None over stdio.
    `is_spoken`: a request was of a version that the hub supports, so that no handshake follows.
    """

    def __init__(
        self,
        relay: Relay,
        rounds: ModernCalls,
        services: Services,
        session: Session,
        tasks: TaskStarter,
    ) -> None:
        self._relay = relay
        self._rounds = rounds
        self._services = services
        self._connection = session
        self._tasks = tasks
        self._identity = session.identity
        self._client_key = client_key_of(session.principal, session.key)
        self.headers: Sequence[tuple[str, str]] | None = None
        self.is_spoken = False
        self._listening: set[ListenStream] = set()

    def route_for(self, request: Request) -> ModernRoute | KnownAnswer | None:
        """Return the cached route of a call, or the result that asks for roots; None if neither."""
        return self._rounds.route_for(self._identity, self._client_key, request)

    async def serve(self, asked: Asked) -> Payload:
        """Return the result of one request. Raises: RpcError, HubError."""
        method, client = asked.request.method, _client(asked.request)
        self.is_spoken = True
        if method == "server/discover":
            if self._services.is_for_one:
                with anyio.move_on_after(GREETING_GRACE):
                    await self._start_early(client)
            told = self._services.instructions(self._identity)
            found: JsonObject = {
                "supportedVersions": list(MODERN_VERSIONS),
                "capabilities": CAPABILITIES,
                **({} if told is None else {"instructions": told}),
            }
            return self._result(found, cacheable=True)
        if method == LISTEN:
            return self._result(await self._listen(client, asked))
        try:
            return await self._answer(client, asked)
        except RpcError as exc:
            raise renumbered(exc) from None

    async def _answer(self, client: Client, asked: Asked) -> Payload:
        """Return the result of a call or list, or a result that asks for roots or input first."""
        method = asked.request.method
        if method in CALLS:
            # Before the state of a retry is used up: the client sends it again with another token.
            self._relay.check_scopes(self._connection, asked)
        kept = self._rounds.kept.of(self._client_key)
        has_all = kept is not None or not _lacks_roots(client, asked.request)
        retry = self._rounds.retry(asked.request, self._identity, is_complete=has_all)
        if retry.is_retry and not (has_all or retry.state.unasked):
            return self._result(wanting_roots(asked.request.params.get("requestState")))
        unasked = retry.state.unasked if retry.is_retry else not has_all
        try:
            found = await self._found(client, asked, retry, kept, unasked=unasked)
        except RootsNeededError:
            return self._result(wanting_roots())
        if method in CALLS and isinstance(found, Raw):
            return found  # from a child: `Relay` completed it before the audit
        return self._result(found, cacheable=method in LISTS)

    def _settle_roots(
        self,
        session: Session,
        client: Client,
        retry: RetryInput,
        kept: KeptAnswer | None,
        *,
        unasked: bool,
    ) -> None:
        """Give the session the roots that the request brings, or those of an earlier request.

        `kept`: the client's answer to an earlier request. `unasked`: the client was not asked; the
        request is served as far as that is possible without roots.
        """
        if not client.declares("roots"):
            return
        if ROOTS_KEY in retry.responses:
            announcement = session.roots.given(retry.responses[ROOTS_KEY])
            if announcement is not None:
                self._rounds.kept.keep(self._client_key, announcement)
        elif kept is not None:
            session.roots.kept(kept.announcement, kept.at)
        elif unasked:
            session.unasked = True
        elif retry is not NO_RETRY:
            session.roots.given(None)

    async def _listen(self, client: Client, asked: Asked) -> JsonObject:
        session = self._session(client)
        kept = self._rounds.kept.of(self._client_key)
        self._settle_roots(session, client, NO_RETRY, kept, unasked=True)
        listening = ListenStream(self._relay, session, asked, self._tasks)
        self._listening.add(listening)
        try:
            return await listening.run()
        finally:
            self._listening.discard(listening)
            session.close()

    @property
    def is_listening(self) -> bool:
        """Whether a `subscriptions/listen` stream is open."""
        return bool(self._listening)

    def end_listening(self) -> None:
        """End the `subscriptions/listen` streams, which would otherwise never end."""
        for listening in self._listening:
            listening.end()

    async def _start_early(self, client: Client) -> None:
        """Start the children that need not wait for a call; return once they answer."""
        session = self._session(client)
        session.unasked = client.declares("roots")
        try:
            await session.start_early()
        finally:
            session.close()

    async def _found(
        self,
        client: Client,
        asked: Asked,
        retry: RetryInput,
        kept: KeptAnswer | None,
        *,
        unasked: bool,
    ) -> Payload:
        method = asked.request.method
        session = self._session(client, _log_level(asked.request))
        try:
            unasked = unasked or method in LISTS
            self._settle_roots(session, client, retry, kept, unasked=unasked)
            if method in CALLS:
                return await self._rounds.result(session, asked, retry)
            if method in LISTS:
                return await self._relay.listings.page(session, asked)
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        except InputNeededError as needed:
            return self._rounds.input_required(needed, asked.request, session)
        finally:
            session.close()

    def _session(self, client: Client, log_level: str | None = None) -> Session:
        session = self._connection.of_request(client, self._tasks, self.headers)
        session.notifier.log_level = log_level
        return session

    def _result(self, found: Payload, *, cacheable: bool = False) -> Payload:
        return completed(found, self._services.info, UNCACHED if cacheable else None)


def _lacks_roots(client: Client, request: Request) -> bool:
    """Return whether a request may need the roots that its client has, and brings no responses."""
    answers = isinstance(request.params.get("inputResponses"), dict)
    return request.method in ASKABLE and client.declares("roots") and not answers


def _client(request: Request) -> Client:
    """Return the client that a request's envelope describes.

    Raises: RpcError for a protocol version that the hub does not support, or unfit capabilities.
    """
    meta = object_or_empty(request.params.get("_meta"))
    version = meta.get(PROTOCOL_VERSION_META)
    if not isinstance(version, str) or version not in MODERN_VERSIONS:
        raise RpcError(
            UNSUPPORTED_VERSION, f"Unsupported protocol version: {version}", supported(version)
        )
    capabilities = object_or_empty(meta.get(CLIENT_CAPABILITIES_META))
    if CLIENT_CAPABILITIES_META not in meta or size_of(capabilities) > MAX_DECLARED:
        said = f"_meta needs {CLIENT_CAPABILITIES_META}, of {MAX_DECLARED} bytes at most"
        raise RpcError(INVALID_PARAMS, said)
    return Client("modern", version, capabilities, object_or_empty(meta.get(CLIENT_INFO_META)))


def _log_level(request: Request) -> str | None:
    """Return the lowest level of log messages that the client wants; None if it wants none.

    Raises: RpcError for an unknown level.
    """
    level = object_or_empty(request.params.get("_meta")).get(LOG_LEVEL_META)
    if level is None:
        return None
    if isinstance(level, str) and level in LOG_LEVELS:
        return level
    known = ", ".join(LOG_LEVELS)
    raise RpcError(INVALID_PARAMS, f"Unknown log level: {level}; known are {known}")


def supported(requested: Json) -> JsonObject:
    """Return the error data that lists the modern versions that the hub supports."""
    return {"supported": list(MODERN_VERSIONS), "requested": requested}
