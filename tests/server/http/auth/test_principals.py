"""Two clients with a token each: what one of them has, the other does not get."""

from __future__ import annotations

from typing import Final

import anyio

from hub.protocol.http_headers import token_hash
from hub.protocol.listen_filter import LISTEN
from hub.server.http.app import NO_TOKEN
from hub.server.http.auth.credentials import BearerTokens
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.server.http.legacy.test_legacy_sessions import Processes
from tests.server.http.test_app import (
    MODERN,
    Web,
    asked,
    echo,
    enveloped,
    initialize,
    listen,
    told,
    web,
)

TOKENS: Final = BearerTokens(None, {"anna": token_hash("of anna"), "ben": token_hash("of ben")})
ONLY_BEN: Final = BearerTokens(None, {"ben": token_hash("of ben")})
ANNA: Final = {"authorization": "Bearer of anna"}
BEN: Final = {"authorization": "Bearer of ben"}
NEW: Final = {"authorization": "Bearer another of anna"}


def principals(site: Web) -> list[str]:
    return [connection.session.principal for connection in site.connection_builder]


async def test_a_session_is_its_owners_alone() -> None:
    async with web(tokens=TOKENS) as site:
        key = await site.session(sent=ANNA)
        for method in ("GET", "DELETE"):
            accept = {"accept": "text/event-stream"}
            assert (await site.use(method, key, **BEN, **accept)).status == 404
        assert (await site.post(echo(), key, **BEN)).status == 404
        assert (await site.post(told(), key, **BEN)).status == 404
        assert (await site.post(echo(), key)).status == 401
        assert (await site.post(echo(), key, **ANNA)).status == 200
        assert principals(site) == ["anna"]


async def test_a_session_that_was_used_is_still_its_owners_alone() -> None:
    async with web(tokens=TOKENS) as site:
        own, other = await site.session(sent=ANNA), await site.session(sent=BEN)
        assert (await site.post(echo(), own, **ANNA)).status == 200
        assert (await site.post(echo(), own, **BEN)).status == 404
        assert (await site.post(echo(), other, **BEN)).status == 200
        assert (await site.post(echo(), other, **ANNA)).status == 404


async def test_a_response_is_resumed_by_its_owner_alone() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child, tokens=TOKENS, poll_after=0.001) as site:
        key = await site.session(sent=ANNA)
        response = await site.start("POST", key, echo(), **ANNA).over()
        seen = {"last_event_id": response.ids[-1], "accept": "text/event-stream"}
        assert (await site.use("GET", key, **BEN, **seen)).status == 404
        resumed = site.start("GET", key, None, **ANNA, **seen)
        await resumed.began()
        assert resumed.status == 200


async def test_a_session_of_an_earlier_process_goes_on_for_its_owner_alone() -> None:
    hub = Processes()
    async with web(tokens=TOKENS, ids=hub.ids()) as site:
        key = await site.session(sent=ANNA)
    async with web(tokens=TOKENS, ids=hub.ids()) as site:
        assert (await site.post(asked("ping"), key, **BEN)).status == 404
        assert (await site.post(asked("ping"), key, **ANNA)).status == 200
        assert principals(site) == ["anna"]


async def test_a_modern_request_is_one_of_its_sender() -> None:
    async with web(tokens=TOKENS) as site:
        for sender in (ANNA, BEN, ANNA):
            answer = await site.modern(asked("tools/list"), None, **sender)
            assert answer.status == 200
        assert principals(site) == ["anna", "ben", "anna"]


async def test_a_request_whose_body_comes_after_its_token_has_ended_is_refused() -> None:
    modern = {"mcp_protocol_version": MODERN, "mcp_method": LISTEN}
    async with web(tokens=TOKENS) as site:
        key = await site.session(sent=BEN)
        requests = [
            site.start("POST", None, initialize(), **ANNA),
            site.start("POST", None, enveloped(listen()), **modern, **ANNA),
            site.start("POST", key, echo(), **BEN),
        ]
        for one in requests:
            one.sends = anyio.Event()
        for one in requests:
            await one.awaited()
        site.keeper.follow(ONLY_BEN, (), ())
        for one in requests:
            one.sends.set()
        assert [(await one.over()).status for one in requests] == [401, 401, 200]
        assert principals(site) == ["ben"]


async def test_with_its_token_a_clients_sessions_end() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child, tokens=TOKENS) as site:
        key, other = await site.session(sent=ANNA), await site.session(sent=BEN)
        stream = site.start("GET", key, None, **ANNA, accept="text/event-stream")
        await stream.began()
        call = site.start("POST", key, echo(), **ANNA)
        await (await child.connected()).request("tools/call")
        site.keeper.follow(ONLY_BEN, (), ())
        assert NO_TOKEN in (await call.over()).json["error"]["message"]
        await stream.over()
        await site.until_closed(1)
        assert (await site.post(asked("ping"), key, **ANNA)).status == 401
        assert (await site.post(asked("ping"), other, **BEN)).status == 200


async def test_a_modern_clients_stream_ends_with_its_token() -> None:
    async with web(tokens=TOKENS) as site:
        streams = [
            site.start(
                "POST",
                None,
                enveloped(listen()),
                mcp_protocol_version=MODERN,
                mcp_method=LISTEN,
                **sender,
            )
            for sender in (ANNA, BEN)
        ]
        for stream in streams:
            await stream.heard(1)
        site.keeper.follow(ONLY_BEN, (), ())
        await streams[0].over()
        assert not streams[1].is_over


async def test_with_another_token_a_client_keeps_its_session_and_opens_its_stream_anew() -> None:
    named = {"anna": token_hash("another of anna"), "ben": token_hash("of ben")}
    async with web(tokens=TOKENS) as site:
        key = await site.session(sent=ANNA)
        stream = site.start("GET", key, None, **ANNA, accept="text/event-stream")
        await stream.began()
        assert (await site.post(echo(), key, **ANNA)).status == 200
        site.keeper.follow(BearerTokens(None, named), (), ())
        await stream.over()
        assert (await site.post(echo(), key, **ANNA)).status == 401
        assert (await site.post(echo(), key, **NEW)).status == 200
        again = site.start("GET", key, None, **NEW, accept="text/event-stream")
        await again.began()
        assert again.status == 200


async def test_the_first_token_ends_the_sessions_of_clients_without_one() -> None:
    async with web() as site:
        key = await site.session()
        site.keeper.follow(TOKENS, (), ())
        await site.until_closed(1)
        assert (await site.post(asked("ping"), key)).status == 401
        assert (await site.post(asked("ping"), key, **ANNA)).status == 404
