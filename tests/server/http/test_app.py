from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from structlog.testing import capture_logs

from hub.app.client_access import limit_principals, profile_rules
from hub.app.hub import Hub
from hub.app.machine import Setting
from hub.app.running import ConnectionBuilder, running_hub
from hub.calls.dispatch import CallDispatcher, RequestRegistry
from hub.calls.rounds.modern_routes import Headers
from hub.config.models import HubConfig
from hub.jsonrpc.messages import MAX_MESSAGE_BYTES, Request
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.requests import MAX_ASKED
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LIST_CHANGED,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    PROTOCOL_VERSION_META,
    UNSUPPORTED_VERSION,
)
from hub.protocol.listen_filter import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_ID_META
from hub.server.connection import ClientConnection
from hub.server.http import app as module
from hub.server.http.access import AccessCheck, LoginEndpoints
from hub.server.http.adoption import SessionIds
from hub.server.http.app import HttpLimits, HttpServer
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.bounds.bodies import LARGE_MESSAGE
from hub.server.http.bounds.forwarded import Proxies
from hub.server.http.legacy.http_session import OPEN_AFTER
from hub.sessions.services import Services
from hub.system.tasks import TaskStarter
from hub.values import JsonObject, ServerName, object_or_empty
from tests.kit.asgi import Connection, request, scope_of
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeClock, Signals
from tests.kit.loops import all_tasks_blocked, virtual_time

BOTH = "application/json, text/event-stream"
HEADERS = {"host": "localhost:8765", "accept": BOTH, "content-type": "application/json"}
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
TOKEN = "s3cret"  # noqa: S105 - it opens nothing
MODERN_CALL = {
    "mcp_protocol_version": MODERN,
    "mcp_method": "tools/call",
    "mcp_name": "echo",
}
ROOTS: JsonObject = {"roots": {"listChanged": True}}


def initialize(capabilities: JsonObject | None = None, id_: int = 1) -> JsonObject:
    params: JsonObject = {"protocolVersion": LEGACY, "capabilities": capabilities or {}}
    return {"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": params}


def echo(id_: int = 2, meta: JsonObject | None = None) -> JsonObject:
    params: JsonObject = {"name": "echo", "arguments": {"text": "hi"}, "_meta": meta or {}}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def asked(method: str, id_: int = 2) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id_, "method": method}


def told(method: str = "notifications/initialized") -> JsonObject:
    return {"jsonrpc": "2.0", "method": method}


def enveloped(message: JsonObject, capabilities: JsonObject | None = None) -> JsonObject:
    meta: JsonObject = {PROTOCOL_VERSION_META: MODERN, CLIENT_CAPABILITIES_META: capabilities or {}}
    params = message.get("params")
    return {**message, "params": {**(params if isinstance(params, dict) else {}), "_meta": meta}}


class Web:
    """An HTTP endpoint before one fake child, and clients of it."""

    def __init__(self, tasks: TaskGroup, child: FakeChild) -> None:
        self.child = child
        self.clock = FakeClock()
        self.connection_builder: list[ClientConnection] = []
        self.closed: list[ClientConnection] = []
        self.signals = Signals()
        self.app: HttpServer
        self.hub: Hub
        self.path = "/mcp"
        self.keeper: AccessCheck
        self._tasks = tasks

    def watched(self, connection: ClientConnection) -> ClientConnection:
        """Remember a conversation, and when it ends."""
        self.connection_builder.append(connection)
        close = connection.close

        def noted() -> None:
            close()
            self.closed.append(connection)
            self.signals.moved()

        connection.close = noted
        return connection

    async def until_closed(self, count: int) -> None:
        await self.signals.until(lambda: len(self.closed) >= count)

    async def post(
        self, body: JsonObject | bytes, key: str | None = None, **headers: str
    ) -> Connection:
        sent = self._headers(key, headers)
        return await request(self.app, "POST", sent, body, path=self.path)

    async def use(self, method: str, key: str | None = None, **headers: str) -> Connection:
        return await request(self.app, method, self._headers(key, headers), path=self.path)

    def start(
        self, method: str, key: str | None, body: JsonObject | None = None, **headers: str
    ) -> Connection:
        """Begin a request, whose response the test reads piece by piece."""
        connection = Connection(b"" if body is None else json.dumps(body).encode())
        scope = scope_of(method, self._headers(key, headers), self.path)
        self._tasks.start_soon(connection.serve, self.app, scope)
        return connection

    @staticmethod
    def _headers(key: str | None, headers: Mapping[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {**HEADERS, **({"mcp-session-id": key} if key else {}), **named}

    async def session(
        self, capabilities: JsonObject | None = None, *, sent: Mapping[str, str] | None = None
    ) -> str:
        """Do a handshake with these headers, and return the session's id."""
        headers = sent or {}
        answer = await self.post(initialize(capabilities), **headers)
        key = answer.headers["mcp-session-id"]
        assert (await self.post(told(), key, **headers)).status == 202
        return key

    async def modern(
        self, message: JsonObject, capabilities: JsonObject | None = None, **headers: str
    ) -> Connection:
        """Make a request of the modern era, with the headers that belong to it."""
        return await self.post(
            enveloped(message, capabilities),
            mcp_protocol_version=MODERN,
            mcp_method=str(message["method"]),
            **headers,
        )


@asynccontextmanager
async def web(  # noqa: PLR0913 - what a test says of the hub
    child: FakeChild | None = None,
    *,
    tokens: BearerTokens | None = None,
    credentials: Credentials | None = None,
    config: Mapping[str, Any] | None = None,
    limits: HttpLimits | None = None,
    poll_after: float = 0,
    origins: Sequence[str] = (),
    proxies: Sequence[str] = (),
    names: Sequence[str] = (),
    ids: SessionIds | None = None,
    oauth: LoginEndpoints | None = None,
    keeper: AccessCheck | None = None,
) -> AsyncGenerator[Web]:
    child = child or FakeChild(ECHO)
    made = HubConfig.model_validate(
        {"version": 1, "servers": {"files": {"command": "x"}}, **(config or {})}
    )
    hub = running_hub(made, Setting(), environment={}, open_child=child.opened)
    async with anyio.create_task_group() as tasks, hub as running:
        site = Web(tasks, child)

        class Watched(ConnectionBuilder):
            def __call__(
                self, outlet: Outlet, tasks: TaskStarter, principal: str, /
            ) -> ClientConnection:
                return site.watched(super().__call__(outlet, tasks, principal))

        limit_principals(running, made)
        site.hub = running
        site.keeper = keeper or AccessCheck(
            "127.0.0.1",
            credentials or Credentials(tokens or BearerTokens()),
            origins,
            names,
            profile_rules(made),
        )
        site.keeper.logins = site.keeper.logins or oauth
        site.app = HttpServer(
            Watched(running.services, profiles=running.own.profiles),
            site.keeper,
            path="/mcp",
            clock=site.clock,
            limits=limits,
            poll_after=poll_after,
            proxies=Proxies(proxies),
            ids=ids,
            usage=running.usage,
        )
        await tasks.start(site.app.run)
        yield site
        tasks.cancel_scope.cancel()


def code(connection: Connection) -> int:
    return connection.json["error"]["code"]


# The gate


async def test_who_is_turned_away_is_turned_away_before_anything_else() -> None:
    async with web(tokens=BearerTokens(TOKEN)) as site:
        for headers, status in [
            ({"host": "evil.example"}, 421),
            ({"origin": "https://evil.example"}, 403),
            ({}, 401),
            ({"authorization": "Bearer other"}, 401),
        ]:
            refused = await site.post(b"{", **headers)
            assert refused.status == status
            assert refused.json["error"]
        assert refused.headers["www-authenticate"] == 'Bearer realm="roots-hub"'
        assert (await site.post(initialize(), authorization=f"Bearer {TOKEN}")).status == 200
        assert [connection.session.principal for connection in site.connection_builder] == ["token"]


async def test_health_is_told_to_anybody_and_other_paths_are_not_there() -> None:
    async with web(tokens=BearerTokens(TOKEN)) as site:
        healthy = await request(site.app, "GET", {"host": "evil.example"}, path="/health")
        assert (healthy.status, healthy.json) == (200, {"status": "ok"})
        allowed = {**HEADERS, "authorization": f"Bearer {TOKEN}"}
        found = await request(site.app, "POST", allowed, initialize(), path="/elsewhere")
        assert found.status == 404
        assert "/mcp" in found.json["error"]
        found = await request(site.app, "POST", allowed, initialize(), path="/mcp/")
        assert found.status == 200


PAGE = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
"""What a browser sends for what a person opens."""


@pytest.mark.parametrize("path", ["/mcp", "/"])
async def test_a_person_who_opens_the_endpoint_is_told_what_it_is(path: str) -> None:
    async with web(
        tokens=BearerTokens(TOKEN), names=["hub.example.com"], proxies=["192.0.2.1"]
    ) as site:
        sent = {"host": "hub.example.com", "x-forwarded-proto": "https", **PAGE}
        shown = await request(site.app, "GET", sent, path=path)
        assert (shown.status, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "default-src 'none'" in shown.headers["content-security-policy"]
        text = unescape(shown.body.decode())
        assert '"url": "https://hub.example.com/mcp"' in text
        assert "Bearer ${HUB_TOKEN}" in text
        assert TOKEN not in text
        assert site.connection_builder == []


async def test_the_page_needs_no_token_where_clients_need_none() -> None:
    async with web() as site:
        shown = await request(site.app, "GET", {"host": "localhost:8765", **PAGE}, path="/")
        text = unescape(shown.body.decode())
        assert '"url": "http://localhost:8765/mcp"' in text
        assert "HUB_TOKEN" not in text


async def test_the_page_is_for_nobody_else() -> None:
    async with web(tokens=BearerTokens(TOKEN)) as site:
        rebound = await request(site.app, "GET", {"host": "evil.example", **PAGE})
        assert (rebound.status, rebound.headers["content-type"]) == (421, "application/json")
        for path, headers in [
            ("/other", {"host": "localhost", **PAGE}),
            ("/mcp", {"host": "localhost", "accept": "text/event-stream, text/html"}),
            ("/mcp", {"host": "localhost", "mcp-session-id": "x", **PAGE}),
            ("/", {"host": "localhost", "accept": "*/*"}),
        ]:
            assert (await request(site.app, "GET", headers, path=path)).status == 401
        assert (await request(site.app, "POST", {"host": "localhost", **PAGE})).status == 401


async def test_a_host_that_is_no_text_for_a_page_is_escaped() -> None:
    async with web() as site:
        sent = {"host": "localhost:<script>", **PAGE}
        shown = await request(site.app, "GET", sent)
        assert b"<script>" not in shown.body


async def test_who_is_sent_away_is_logged_with_what_to_set() -> None:
    with capture_logs() as lines:
        async with web() as site:
            await site.post(initialize(), host="hub.example.com")
    (line,) = [line for line in lines if line["event"] == "request refused: 421"]
    assert "listen.names" in line["reason"]


async def test_what_is_no_http_request_is_left_alone() -> None:
    async with web() as site:
        connection = Connection()
        await site.app({"type": "websocket"}, connection.receive, connection.send)
        assert connection.sent == []


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD"])
async def test_other_methods_are_not_allowed(method: str) -> None:
    async with web() as site:
        refused = await site.use(method)
        assert (refused.status, refused.headers["allow"]) == (405, "GET, POST, DELETE")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_modern_era_has_neither_streams_nor_sessions(method: str) -> None:
    async with web() as site:
        key = await site.session()
        assert (await site.use(method, key, mcp_protocol_version=MODERN)).status == 405
        assert (await site.post(asked("ping"), key)).status == 200


@pytest.mark.parametrize("accept", ["", "application/json", "text/event-stream", "text/html"])
async def test_a_client_takes_both_forms_of_an_answer(accept: str) -> None:
    async with web() as site:
        assert (await site.post(initialize(), accept=accept)).status == 406
        assert site.connection_builder == []


@pytest.mark.parametrize(
    "accept", ["*/*", "application/*, text/*", "TEXT/event-stream;q=1, */json"]
)
async def test_ranges_of_media_types_count(accept: str) -> None:
    async with web() as site:
        expected = 406 if "*/json" in accept else 200
        assert (await site.post(initialize(), accept=accept)).status == expected


async def test_a_message_is_not_compressed() -> None:
    async with web() as site:
        assert (await site.post(initialize(), content_encoding="gzip")).status == 415
        assert (await site.post(initialize(), content_encoding="identity")).status == 200


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonp"])
async def test_a_message_is_json(kind: str) -> None:
    async with web() as site:
        assert (await site.post(initialize(), content_type=kind)).status == 415
        assert (
            await site.post(initialize(), content_type="Application/JSON; charset=utf-8")
        ).status == 200


async def test_a_message_that_is_too_large_is_not_read_to_its_end() -> None:
    async with web() as site:
        connection = Connection(b" " * MAX_MESSAGE_BYTES, b" ", b"the rest")
        await connection.serve(site.app, scope_of("POST", HEADERS))
        assert connection.status == 413
        assert (await connection.receive())["body"] == b"the rest"
        assert (
            await site.post(json.dumps(initialize()).encode().ljust(MAX_MESSAGE_BYTES))
        ).status == 200


@pytest.mark.long
async def test_a_session_with_too_many_requests_is_told_to_try_again_later() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        for id_ in range(MAX_ASKED - 1):
            site.start("POST", key, echo(id_))
        await all_tasks_blocked()
        assert (await site.post(asked("ping", MAX_ASKED), key)).status == 200
        site.start("POST", key, echo(MAX_ASKED))
        await all_tasks_blocked()
        assert (await site.post(asked("ping", MAX_ASKED + 1), key)).status == 503


async def test_a_message_may_come_in_pieces() -> None:
    async with web() as site:
        text = json.dumps(initialize()).encode()
        connection = Connection(text[:10], b"", text[10:])
        await connection.serve(site.app, scope_of("POST", HEADERS))
        assert connection.json["result"]["protocolVersion"] == LEGACY


@pytest.mark.parametrize(
    ("body", "expected", "id_"),
    [
        (b"{", PARSE_ERROR, None),
        (b"", PARSE_ERROR, None),
        (b'"\xff"', PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b"7", INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","method":"ping"}', INVALID_REQUEST, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":' + b"[" * 200, PARSE_ERROR, 3),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', INVALID_REQUEST, 3),
    ],
)
async def test_a_bad_message_is_answered_and_its_session_lives_on(
    body: bytes, expected: int, id_: int | None
) -> None:
    async with web() as site:
        key = await site.session()
        refused = await site.post(body, key)
        assert (refused.status, code(refused), refused.json["id"]) == (400, expected, id_)
        assert (await site.post(asked("ping"), key)).json["result"] == {}


# Legacy sessions


async def test_a_handshake_opens_a_session_of_its_own() -> None:
    async with web() as site:
        answers = [await site.post(initialize()) for _ in range(2)]
        keys = {answer.headers["mcp-session-id"] for answer in answers}
        assert len(keys) == 2
        for answer in answers:
            assert (answer.status, answer.is_stream) == (200, False)
            assert answer.json["result"]["serverInfo"]["name"] == "roots-hub"
        for key in keys:
            assert key.isascii()
            assert 100 < len(key) < 1000
            assert (await site.post(told(), key)).body == b""
            listed = await site.post(asked("tools/list"), key)
            names = [tool["name"] for tool in listed.json["result"]["tools"]]
            assert names == ["get-roots", "echo"]
            assert "mcp-session-id" not in listed.headers


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_without_its_id_a_session_is_not_found(method: str) -> None:
    async with web() as site:
        await site.session()
        body = asked("tools/list") if method == "POST" else b""
        for key, status in [(None, 400), ("guessed", 404)]:
            headers = {**HEADERS, **({"mcp-session-id": key} if key else {})}
            found = await request(site.app, method, headers, body)
            assert (found.status, code(found)) == (status, INVALID_REQUEST)
            assert found.json["id"] == (2 if method == "POST" else None)


async def test_a_session_is_greeted_once() -> None:
    async with web() as site:
        key = await site.session()
        again = await site.post(initialize(), key)
        assert (again.status, code(again)) == (200, INVALID_REQUEST)
        assert (await site.post(initialize(), "unknown")).status == 404


def fail(*_: object) -> str:
    raise KeyError("nobody expected this")


@pytest.mark.parametrize("is_unfit", [True, False])
async def test_a_handshake_that_fails_opens_nothing(
    monkeypatch: pytest.MonkeyPatch, *, is_unfit: bool
) -> None:
    async with web(limits=HttpLimits(sessions=1)) as site:
        with monkeypatch.context() as patched:
            if not is_unfit:
                patched.setattr(Services, "instructions", fail)
            sent: JsonObject = {"params": {}} if is_unfit else {}
            failed = await site.post({**initialize(), **sent})
        assert "error" in failed.json
        assert "mcp-session-id" not in failed.headers
        assert site.closed == site.connection_builder
        opened = await site.post(initialize())
        assert (await site.post(asked("ping"), opened.headers["mcp-session-id"])).status == 200


async def test_there_are_so_many_sessions_and_no_more() -> None:
    async with web(limits=HttpLimits(sessions=4)) as site:
        keys = [await site.session() for _ in range(2)]
        for key in keys:
            assert (await site.post(echo(), key)).status == 200
        refused = await site.post(initialize())
        assert (refused.status, refused.json) == (
            503,
            {"error": "2 sessions of 192.0.2.1 are open; try again later"},
        )
        assert int(refused.headers["retry-after"]) > 0
        assert (await site.use("DELETE", keys[0])).status == 200
        assert (await site.post(initialize())).status == 200


async def test_a_session_that_never_called_makes_room() -> None:
    async with web(limits=HttpLimits(sessions=4)) as site:
        listening = await site.session()
        stream = site.start("GET", listening)
        await stream.began()
        unused = await site.session()
        new = await site.session()
        assert [
            (await site.post(asked("ping"), key)).status for key in (unused, listening, new)
        ] == [
            404,
            200,
            200,
        ]


async def test_one_address_leaves_sessions_to_others() -> None:
    async with web(limits=HttpLimits(sessions=4), proxies=["192.0.2.0/24"]) as site:
        for address, expected in [("10.0.0.1", [200, 200, 503]), ("10.0.0.2", [200, 200, 503])]:
            statuses: list[int] = []
            for _ in expected:
                opened = await site.post(initialize(), x_forwarded_for=f"8.8.8.8, {address}")
                statuses.append(opened.status)
                if opened.status == 200:
                    await site.post(echo(), opened.headers["mcp-session-id"])
            assert statuses == expected


async def test_a_page_that_is_listed_may_read_what_is_answered() -> None:
    page = "http://localhost:6274"
    async with web(tokens=BearerTokens(TOKEN), origins=[page]) as site:
        asked_first = {"origin": page, "access_control_request_method": "POST"}
        wanted = "authorization, mcp-param-path"
        permitted = await site.use(
            "OPTIONS",
            **asked_first,
            access_control_request_headers=wanted,
            access_control_request_private_network="true",
        )
        assert (permitted.status, permitted.body) == (204, b"")
        assert permitted.headers["access-control-allow-origin"] == page
        assert permitted.headers["access-control-allow-headers"] == wanted
        assert permitted.headers["access-control-allow-private-network"] == "true"
        assert "DELETE" in permitted.headers["access-control-allow-methods"]
        opened = await site.post(initialize(), origin=page, authorization=f"Bearer {TOKEN}")
        assert opened.headers["access-control-allow-origin"] == page
        assert "mcp-session-id" in opened.headers["access-control-expose-headers"]
        assert opened.headers["vary"] == "origin"
        unauthorized = await site.post(initialize(), origin=page)
        assert unauthorized.status == 401
        assert unauthorized.headers["access-control-allow-origin"] == page
        assert (await site.use("OPTIONS", **asked_first, host="evil.example")).status == 421


async def test_other_pages_are_told_nothing() -> None:
    async with web(origins=["http://localhost:6274"]) as site:
        for origin in ("http://localhost:3000", "https://evil.example", "null"):
            asked_first = {"origin": origin, "access_control_request_method": "POST"}
            refused = await site.use("OPTIONS", **asked_first)
            assert refused.status == 403
            assert "listen.origins" in refused.json["error"]
            assert not any(name.startswith("access-control") for name in refused.headers)


async def test_a_deleted_session_is_gone_with_its_stream_and_its_calls() -> None:
    async with web(FakeChild(ECHO, answers={"tools/call": SILENT})) as site:
        key = await site.session()
        stream = site.start("GET", key)
        await stream.began()
        call = site.start("POST", key, echo())
        link = await site.child.connected()
        await link.request("tools/call")
        assert (await site.use("DELETE", key)).status == 200
        assert (await stream.over()).events == []
        error = (await call.over()).json["error"]
        assert error["code"] == INTERNAL_ERROR
        assert error["message"].startswith("the session was ended by its client")
        assert (await link.request("notifications/cancelled"))["params"]["requestId"]
        assert (await site.use("DELETE", key)).status == 404
        assert (await site.post(asked("ping"), key)).status == 404


async def test_an_idle_session_ends_and_a_busy_one_does_not() -> None:
    async with web(limits=HttpLimits(session_idle=0.06)) as site:
        idle, listening, _ = [await site.session() for _ in range(3)]
        stream = site.start("GET", listening)
        await stream.began()
        site.clock.advance(1)
        await site.until_closed(2)
        assert (await site.post(asked("ping"), idle)).status == 404
        assert (await site.post(asked("ping"), listening)).status == 200
        stream.disconnect()
        await stream.served()
        site.clock.advance(1)
        await site.until_closed(3)
        assert (await site.post(asked("ping"), listening)).status == 404


async def test_a_session_begins_to_idle_when_its_last_answer_is_sent() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo())
        link = await child.connected()
        sent = await link.request("tools/call")
        site.clock.advance(module.SESSION_IDLE + 1)
        link.answer(sent["id"], {"content": []})
        await call.over()
        assert (await site.post(asked("ping"), key)).status == 200


async def test_when_the_hub_ends_its_sessions_end() -> None:
    async with web() as site:
        await site.session()
        await site.session()
    assert len(site.closed) == 2


async def test_before_it_runs_no_session_is_opened() -> None:
    async with web() as site:

        class Closed:
            def __call__(
                self, outlet: Outlet, tasks: TaskStarter, principal: str, /
            ) -> ClientConnection:
                pytest.fail("opened")

            def within(self, profile: str | None, /) -> Closed:
                return self

            def route_for(self, principal: str, request: Request, headers: Headers, /) -> None:
                pytest.fail("asked for a way")

            def dispatcher(
                self, register: RequestRegistry, tasks: TaskStarter, /
            ) -> CallDispatcher:
                pytest.fail("asked for a call")

        keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens()))
        idle = HttpServer(Closed(), keeper, path="/mcp", clock=site.clock)
        assert (await request(idle, "POST", HEADERS, initialize())).status == 503


@pytest.mark.parametrize("version", [LEGACY, "2024-11-05"])
async def test_a_version_of_the_legacy_era_may_be_named_in_a_header(version: str) -> None:
    async with web() as site:
        key = await site.session()
        answer = await site.post(asked("ping"), key, mcp_protocol_version=version)
        assert answer.json["result"] == {}


async def test_another_version_in_a_header_is_refused() -> None:
    async with web() as site:
        key = await site.session()
        for message in (asked("ping"), told("notifications/x")):
            refused = await site.post(message, key, mcp_protocol_version="2099-01-01")
            assert refused.status == 400
        for method in ("GET", "DELETE"):
            refused = await site.use(method, key, mcp_protocol_version="2099-01-01")
            assert refused.status == 400
        assert (await site.post(asked("ping"), key)).status == 200


# Answers, streams, and what cuts them


async def test_an_answer_is_json_if_nothing_comes_before_it() -> None:
    async with web() as site:
        key = await site.session()
        answer = await site.post(echo(), key)
        assert not answer.is_stream
        assert answer.json["result"]["structuredContent"] == {"text": "hi"}


async def test_progress_makes_the_answer_a_stream() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo(9, {"progressToken": "mine"}))
        link = await child.connected()
        sent = await link.request("tools/call")
        token = sent["params"]["_meta"]["progressToken"]
        link.notify("notifications/progress", {"progressToken": token, "progress": 0.5})
        (report,) = await call.heard(1)
        assert report["params"] == {"progressToken": "mine", "progress": 0.5}
        link.answer(sent["id"], {"content": []})
        assert (await call.over()).events[1] == {
            "jsonrpc": "2.0",
            "id": 9,
            "result": {"content": []},
        }


@virtual_time
async def test_roots_are_asked_for_on_the_stream_of_the_call_that_needs_them() -> None:
    async with web() as site:
        key = await site.session(ROOTS)
        call = site.start("POST", key, echo())
        (wanted,) = await call.heard(1)
        assert wanted["method"] == "roots/list"
        assert "params" not in wanted
        answer: JsonObject = {"jsonrpc": "2.0", "id": wanted["id"], "result": {"roots": []}}
        assert (await site.post(answer, key)).status == 202
        assert (await call.over()).events[1]["result"]["structuredContent"] == {"text": "hi"}


@virtual_time
async def test_roots_are_asked_for_on_the_standing_stream_once_there_is_one() -> None:
    async with web() as site:
        key = await site.session(ROOTS)
        stream = site.start("GET", key)
        (wanted,) = await stream.heard(1)
        assert wanted["method"] == "roots/list"


@virtual_time
@pytest.mark.parametrize("waits", [True, False])
async def test_roots_asked_on_a_stream_that_closes_are_asked_again_through_the_call(
    *, waits: bool
) -> None:
    async with web() as site:
        key = await site.session(ROOTS)
        stream = site.start("GET", key)
        (first,) = await stream.heard(1)
        call = site.start("POST", key, echo())
        if waits:
            await all_tasks_blocked()
            assert not call.sent
        stream.disconnect()
        await stream.served()
        (again,) = await call.heard(1)
        assert again["method"] == "roots/list"
        assert again["id"] != first["id"]
        late: JsonObject = {"jsonrpc": "2.0", "id": first["id"], "result": {"roots": []}}
        assert (await site.post(late, key)).status == 202
        await all_tasks_blocked()
        assert not call.is_over, "nobody waits for that answer any more"
        answer: JsonObject = {"jsonrpc": "2.0", "id": again["id"], "result": {"roots": []}}
        assert (await site.post(answer, key)).status == 202
        assert (await call.over()).events[1]["result"]["structuredContent"] == {"text": "hi"}


@virtual_time
@pytest.mark.parametrize("waits", [True, False])
async def test_roots_asked_on_a_connection_that_is_lost_are_asked_again_by_the_next_call(
    *, waits: bool
) -> None:
    async with web() as site:
        key = await site.session(ROOTS)
        lost = site.start("POST", key, echo())
        (first,) = await lost.heard(1)
        call = site.start("POST", key, echo(8)) if waits else None
        await all_tasks_blocked()
        lost.disconnect()
        await all_tasks_blocked()
        call = call or site.start("POST", key, echo(8))
        (again,) = await call.heard(1)
        assert again["method"] == "roots/list"
        assert again["id"] != first["id"]
        answer: JsonObject = {"jsonrpc": "2.0", "id": again["id"], "result": {"roots": []}}
        assert (await site.post(answer, key)).status == 202
        assert (await call.over()).events[1]["result"]["structuredContent"] == {"text": "hi"}


async def test_a_task_that_fails_for_one_client_ends_nothing_of_another() -> None:
    async with web() as site:

        async def fail(_: str) -> None:
            raise KeyError("nobody expected this")

        keys = [await site.session() for _ in range(2)]
        session = site.connection_builder[0].session
        session.renew = fail
        session.notifier.subscriptions[ServerName("files"), "note://a"] = "note://a"
        with capture_logs() as logs:
            await session.came(site.hub.services.servers[ServerName("files")])
            await all_tasks_blocked()
        assert [one["event"] for one in logs] == ["a task failed"]
        for key in keys:
            answer = (await site.post(echo(), key)).json
            assert answer["result"]["structuredContent"] == {"text": "hi"}


async def test_one_clients_answer_is_not_anothers() -> None:
    async with web() as site:
        first, second = [await site.session(ROOTS) for _ in range(2)]
        calls = [site.start("POST", key, echo()) for key in (first, second)]
        wanted = [(await call.heard(1))[0] for call in calls]
        assert wanted[0]["id"] == wanted[1]["id"]
        answer: JsonObject = {"jsonrpc": "2.0", "id": wanted[0]["id"], "result": {"roots": []}}
        await site.post(answer, first)
        await calls[0].over()
        assert not calls[1].is_over
        await site.post(answer, second)
        await calls[1].over()


async def test_a_new_standing_stream_replaces_the_one_before_it() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        streams = [site.start("GET", key)]
        for _ in range(3):
            await all_tasks_blocked()
            streams.append(site.start("GET", key))
            assert (await streams[-2].over()).status == 200
        await all_tasks_blocked()
        # Nobody knows what the client got of the one before: it lists again.
        assert [told["method"] for told in streams[-1].events] == [*LIST_CHANGED]
        assert streams[0].events == []
        site.child.link.notify("notifications/tools/list_changed", {})
        heard = await streams[-1].heard(len(LIST_CHANGED) + 1)
        assert heard[-1]["method"] == "notifications/tools/list_changed"
        assert not streams[-1].is_over
        assert (await site.use("GET", key, accept="application/json")).status == 406


@pytest.mark.long
async def test_a_client_that_reads_no_more_does_not_keep_its_new_stream_out() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        lost = site.start("GET", key)
        await lost.began()
        lost.accepts = anyio.Event()
        site.child.link.notify("notifications/tools/list_changed", {})
        await all_tasks_blocked()
        stream = site.start("GET", key)
        await stream.heard(len(LIST_CHANGED))


async def test_a_stream_that_does_not_come_up_takes_no_place() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        stream = site.start("GET", key)
        await all_tasks_blocked()
        before = len(stream.events)
        late = site.start("GET", key)
        late.accepts = anyio.Event()
        await all_tasks_blocked()
        assert not late.sent
        site.child.link.notify("notifications/tools/list_changed", {})
        await stream.heard(before + 1)
        late.accepts.set()
        await stream.over()


async def test_the_stream_that_came_up_last_counts() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        late = site.start("GET", key)
        late.accepts = anyio.Event()
        await all_tasks_blocked()
        assert not late.sent
        stream = site.start("GET", key)
        await stream.began()
        late.accepts.set()
        await stream.over()
        await all_tasks_blocked()
        before = len(late.events)
        site.child.link.notify("notifications/tools/list_changed", {})
        await late.heard(before + 1)


async def test_what_belongs_to_no_request_goes_to_the_standing_stream() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        stream = site.start("GET", key)
        await stream.began()
        site.child.link.notify("notifications/tools/list_changed", {})
        assert (await stream.heard(1))[0]["method"] == "notifications/tools/list_changed"


async def test_a_client_that_disconnects_cancels_its_call() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo())
        link = await child.connected()
        sent = await link.request("tools/call")
        call.disconnect()
        cancelled = await link.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        assert call.sent == []
        assert (await site.post(asked("ping"), key)).status == 200


async def test_a_cancelled_call_gets_an_empty_stream() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo(5))
        link = await child.connected()
        await link.request("tools/call")
        cancel: JsonObject = {**told("notifications/cancelled"), "params": {"requestId": 5}}
        assert (await site.post(cancel, key)).status == 202
        assert (await call.over()).events == []
        assert call.is_stream


async def test_a_second_request_with_an_id_in_flight_is_refused() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo(5))
        link = await child.connected()
        sent = await link.request("tools/call")
        refused = await site.post(asked("ping", 5), key)
        assert (refused.status, code(refused), refused.json["id"]) == (400, INVALID_REQUEST, 5)
        link.answer(sent["id"], {"content": []})
        assert (await call.over()).json["result"] == {"content": []}


@virtual_time
async def test_a_long_silence_is_filled_with_comments() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo())
        link = await child.connected()
        sent = await link.request("tools/call")
        await call.signals.until(lambda: len(call.sent) > 2)
        assert call.is_stream
        link.answer(sent["id"], {"content": []})
        assert len((await call.over()).events) == 1


@virtual_time
async def test_a_response_begins_while_its_client_has_something_to_answer() -> None:
    async with web() as site:
        key = await site.session(ROOTS)
        stream = site.start("GET", key)
        (wanted,) = await stream.heard(1)
        call = site.start("POST", key, echo())
        await call.began()
        assert (call.status, call.is_stream, call.body) == (200, True, b"")
        answer: JsonObject = {"jsonrpc": "2.0", "id": wanted["id"], "result": {"roots": []}}
        assert (await site.post(answer, key)).status == 202
        (answered,) = (await call.over()).events
        assert answered["result"]["structuredContent"] == {"text": "hi"}


@virtual_time
async def test_it_does_not_begin_before_its_answer_for_anything_else() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session()
        call = site.start("POST", key, echo())
        link = await child.connected()
        sent = await link.request("tools/call")
        await anyio.sleep(2 * OPEN_AFTER)
        assert call.sent == []
        link.answer(sent["id"], {"content": []})
        assert (await call.over()).json["result"] == {"content": []}


# The modern era


async def test_a_modern_request_needs_no_session() -> None:
    async with web() as site:
        found = await site.modern(asked("server/discover"))
        assert found.status == 200
        assert found.json["result"]["supportedVersions"] == [MODERN]
        assert "mcp-session-id" not in found.headers
        answer = await site.modern(echo(), mcp_name="echo")
        assert answer.json["result"]["structuredContent"] == {"text": "hi"}
        assert answer.json["result"]["resultType"] == "complete"
        assert site.closed == site.connection_builder


async def test_a_modern_client_is_asked_by_the_result() -> None:
    async with web() as site:
        params: JsonObject = {"name": "echo", "arguments": {"path": "/x"}}
        named: JsonObject = {**asked("tools/call"), "params": params}
        answer = await site.modern(named, ROOTS, mcp_name="echo")
        assert answer.json["result"]["resultType"] == "input_required"
        assert not answer.is_stream
        assert site.child.links == []


async def test_modern_headers_must_fit_the_body() -> None:
    async with web() as site:
        refused = await site.modern(echo(), mcp_name="other")
        assert (refused.status, code(refused)) == (400, HEADER_MISMATCH)
        refused = await site.post(enveloped(echo()))
        assert (refused.status, code(refused)) == (400, HEADER_MISMATCH)
        assert site.connection_builder == []


async def test_an_unsupported_modern_version_says_which_are() -> None:
    async with web() as site:
        body = enveloped(asked("tools/list"))
        text = json.dumps(body).replace(MODERN, "2099-01-01").encode()
        refused = await site.post(text, mcp_protocol_version="2099-01-01", mcp_method="tools/list")
        assert (refused.status, code(refused)) == (400, UNSUPPORTED_VERSION)
        assert refused.json["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


async def test_an_unknown_modern_method_is_not_found() -> None:
    async with web() as site:
        refused = await site.modern(asked("nonsense"))
        assert (refused.status, code(refused)) == (404, METHOD_NOT_FOUND)


async def test_a_modern_notification_is_taken_and_dropped() -> None:
    async with web() as site:
        answer = await site.post(told("notifications/x"), mcp_protocol_version=MODERN)
        assert (answer.status, answer.body) == (202, b"")


def begin_calling(site: Web, message: JsonObject | None = None) -> Connection:
    return site.start(
        "POST",
        None,
        enveloped(echo()) if message is None else message,
        mcp_protocol_version=MODERN,
        mcp_method="tools/call",
        mcp_name="echo",
    )


async def test_a_modern_client_that_disconnects_cancels_its_call() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        call = begin_calling(site)
        link = await child.connected()
        await link.request("tools/call")
        call.disconnect()
        await link.request("notifications/cancelled")
        await site.until_closed(1)
        assert call.sent == []


@pytest.mark.parametrize("is_first", [True, False])
async def test_progress_makes_a_modern_answer_a_stream(is_first: bool) -> None:
    child = FakeChild(ECHO)
    async with web(child) as site:
        if not is_first:
            await site.modern(echo(), mcp_name="echo")
        child.answers["tools/call"] = SILENT
        body: Any = enveloped(echo())
        body["params"]["_meta"]["progressToken"] = "mine"
        call = begin_calling(site, body)
        link = await child.connected()
        sent = await link.request("tools/call", nth=1 if is_first else 2)
        token = sent["params"]["_meta"]["progressToken"]
        link.notify("notifications/progress", {"progressToken": token, "progress": 1})
        assert (await call.heard(1))[0]["params"] == {"progressToken": "mine", "progress": 1}
        link.answer(sent["id"], {"content": []})
        assert (await call.over()).events[1]["result"]["resultType"] == "complete"
        assert len(site.connection_builder) == 1, "a call like one before needs no conversation"


def listen(id_: int = 7, **fields: Any) -> JsonObject:
    notifications: JsonObject = {"toolsListChanged": True, **fields}
    return {**asked(LISTEN, id_), "params": {"notifications": notifications}}


def begin_listening(site: Web) -> Connection:
    return site.start(
        "POST", None, enveloped(listen()), mcp_protocol_version=MODERN, mcp_method=LISTEN
    )


async def test_a_modern_client_listens_on_a_stream_until_it_leaves() -> None:
    async with web() as site:
        stream = begin_listening(site)
        (first,) = await stream.heard(1)
        assert stream.is_stream
        assert first["method"] == ACKNOWLEDGED
        await site.modern(echo(), mcp_name="echo")
        site.child.link.notify("notifications/tools/list_changed", {})
        told = (await stream.heard(2))[1]
        assert told["method"] == "notifications/tools/list_changed"
        assert told["params"]["_meta"] == {SUBSCRIPTION_ID_META: 7}
        stream.disconnect()
        await site.until_closed(2)


async def test_so_many_modern_requests_are_under_way_and_no_more() -> None:
    child = FakeChild(ECHO)
    async with web(child, limits=HttpLimits(underway=4)) as site:  # half of it of one owner
        await site.modern(echo(), mcp_name="echo")
        child.answers["tools/call"] = SILENT
        stream, call = begin_listening(site), begin_calling(site)
        await stream.heard(1)
        sent = await child.link.request("tools/call", nth=2)
        for refused in (
            await site.modern(echo(9), mcp_name="echo"),
            await site.modern(asked("tools/list", 9)),
        ):
            assert (refused.status, refused.json["id"]) == (503, 9)
            told = "2 requests are in progress; try again later"
            assert refused.json["error"] == {"code": INTERNAL_ERROR, "message": told}
        assert len(child.link.requests("tools/call")) == 2
        child.link.answer(sent["id"], {"content": []})
        await call.over()
        assert (await site.modern(asked("tools/list"))).status == 200


async def test_a_stream_is_answered_when_the_hub_ends() -> None:
    async with web() as site:
        stream = begin_listening(site)
        await stream.heard(1)
        site.app.end_streams()
        result = (await stream.over()).events[1]
        assert (result["id"], result["result"]["resultType"]) == (7, "complete")


@pytest.mark.parametrize("by_cached_route", [False, True])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("is_modern", [False, True])
async def test_a_call_that_is_given_up_as_the_hub_ends_is_told_so(
    *, is_modern: bool, streams: bool, by_cached_route: bool
) -> None:
    child = FakeChild(ECHO)
    async with web(child) as site:
        key = None if is_modern else await site.session()
        message = enveloped(echo()) if is_modern else echo()
        meta = object_or_empty(object_or_empty(message["params"])["_meta"])
        meta["progressToken"] = "p"
        headers = MODERN_CALL if is_modern else {}
        if by_cached_route:
            await site.post(message, key, **headers)
        child.answers["tools/call"] = SILENT
        call = site.start("POST", key, message, **headers)
        link = await child.connected()
        sent = await link.request("tools/call", nth=1 + by_cached_route)
        if streams:
            link.notify("notifications/progress", {"progressToken": sent["id"], "progress": 1})
            await call.heard(1)
        site.app.end_answers()
        await call.over()
        assert (call.status, call.is_stream) == (200, streams)
        answer = call.events[-1] if streams else call.json
        assert (answer["id"], answer["error"]["code"]) == (2, INTERNAL_ERROR)
        assert answer["error"]["message"].startswith("the hub is ending")
        cancelled = await link.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]


async def test_a_hub_that_takes_no_requests_lets_those_in_progress_end() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child) as site:
        key = await site.session({**ROOTS, "sampling": {}})
        call = site.start("POST", key, echo())
        (wanted,) = await call.heard(1)
        site.app.refuse_requests()
        for refused in (
            await site.post(echo(3), key),
            await site.post(asked("tools/list", 3), key),
            await site.modern(echo(3), mcp_name="echo"),
        ):
            assert (refused.status, "retry-after" in refused.headers) == (503, True)
            assert (refused.json["id"], refused.json["error"]["code"]) == (3, INTERNAL_ERROR)
        told_roots: JsonObject = {"jsonrpc": "2.0", "id": wanted["id"], "result": {"roots": []}}
        assert (await site.post(told_roots, key)).status == 202
        link = await child.connected()
        sent = await link.request("tools/call")
        link.answer(sent["id"], {"content": []})
        assert (await call.over()).events[-1]["result"]["content"] == []


async def test_a_retry_is_no_new_request_as_the_hub_ends() -> None:
    async with web(FakeChild(ECHO)) as site:
        named: JsonObject = {"name": "echo", "arguments": {"path": "x"}}
        wanted = await site.modern({**asked("tools/call"), "params": named}, ROOTS, mcp_name="echo")
        (key,) = wanted.json["result"]["inputRequests"]
        site.app.refuse_requests()
        retry: JsonObject = {
            **named,
            "inputResponses": {key: {"roots": []}},
        }
        answer = await site.modern({**asked("tools/call"), "params": retry}, ROOTS, mcp_name="echo")
        assert answer.status == 200
        assert "outside the allowed roots" in answer.json["result"]["content"][0]["text"]


async def test_a_large_message_that_is_not_read_as_the_hub_ends_is_told_so() -> None:
    async with web(FakeChild(ECHO)) as site:
        key = await site.session()
        message = echo(meta={"padding": "x" * LARGE_MESSAGE})
        assert (await site.post(message, key)).status == 200
        site.app.end_answers()
        answer = await site.post(message, key)
        assert (answer.status, answer.json) == (503, {"error": "The hub is ending"})


async def test_a_body_that_has_not_come_as_the_hub_ends_is_not_waited_for() -> None:
    async with web(FakeChild(ECHO)) as site:
        request = site.start("POST", await site.session(), echo())
        request.sends = anyio.Event()
        await request.awaited()
        site.app.end_answers()
        assert (await request.over()).status == 503
        assert request.json == {"error": "The hub is ending"}


@pytest.mark.parametrize("more", [0, 1])
async def test_a_message_that_says_it_is_too_large_is_refused_before_it_comes(more: int) -> None:
    async with web(FakeChild(ECHO)) as site:
        key, said = await site.session(), str(MAX_MESSAGE_BYTES + more)
        request = site.start("POST", key, echo(), content_length=said)
        request.sends = anyio.Event()
        if more:
            assert (await request.over()).status == 413
            assert not request.is_awaited
        else:
            await request.awaited()
            request.sends.set()
            assert (await request.over()).status == 200


async def test_a_modern_client_without_roots_that_needs_some_is_told_so_with_its_status() -> None:
    async with web(config={"roots": {"when_missing": "deny"}}) as site:
        named: JsonObject = {"name": "echo", "arguments": {"path": "/etc/passwd"}}
        refused = await site.modern({**asked("tools/call"), "params": named}, mcp_name="echo")
        assert (refused.status, code(refused)) == (400, MISSING_CLIENT_CAPABILITY)
        assert refused.json["error"]["data"] == {"requiredCapabilities": {"roots": {}}}


async def test_headers_that_do_not_repeat_an_argument_are_refused() -> None:
    region: JsonObject = {"type": "string", "x-mcp-header": "Region"}
    tool: JsonObject = {"name": "echo", "inputSchema": {"properties": {"text": region}}}
    async with web(FakeChild(tool)) as site:
        refused = await site.modern(echo(), mcp_name="echo", mcp_param_region="other")
        assert (refused.status, code(refused)) == (400, HEADER_MISMATCH)
        found = await site.modern(echo(), mcp_name="echo", mcp_param_region="hi")
        assert found.json["result"]["structuredContent"] == {"text": "hi"}
