"""Clients with a token that ends: what goes on until then, and what ends with it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from structlog.testing import capture_logs

from hub.protocol.http_headers import token_hash
from hub.protocol.listen_filter import LISTEN
from hub.server.http.access import AccessCheck
from hub.server.http.app import NO_TOKEN
from hub.server.http.auth.credentials import BearerTokens, Credentials
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.loops import virtual_time
from tests.server.http.test_app import (
    MODERN,
    MODERN_CALL,
    Web,
    asked,
    echo,
    enveloped,
    initialize,
    listen,
    web,
)

ANNA, BEN = ({"authorization": f"Bearer of {name}"} for name in ("anna", "ben"))
HASHES: Final = {name: token_hash(f"of {name}") for name in ("anna", "ben")}
ENDED: Final = "The token is not valid: it has ended"


def ending(at: float) -> BearerTokens:
    """Return tokens of which Anna's ends."""
    return BearerTokens(None, HASHES, {"anna": at})


class Clock:
    """The time of day, or a later one."""

    later = 0.0

    def __call__(self) -> float:
        return time.time() + self.later


@asynccontextmanager
async def an_hour(child: FakeChild | None = None) -> AsyncGenerator[tuple[Web, Clock]]:
    """Yield an endpoint for which Anna's token lasts an hour, and its clock."""
    clock = Clock()
    credentials = Credentials(ending(time.time() + 3600), clock=clock)
    async with web(child, credentials=credentials) as site:
        yield site, clock


async def streams(site: Web, key: str, sent: dict[str, str]) -> list[Connection]:
    """Open the stream of a session, and one of the modern era."""
    standing = site.start("GET", key, None, **sent, accept="text/event-stream")
    await standing.began()
    modern = {"mcp_protocol_version": MODERN, "mcp_method": LISTEN}
    listening = site.start("POST", None, enveloped(listen()), **modern, **sent)
    await listening.heard(1)
    return [standing, listening]


async def test_a_token_that_has_ended_lets_nobody_in_and_others_go_on() -> None:
    async with an_hour() as (site, clock):
        key, other = await site.session(sent=ANNA), await site.session(sent=BEN)
        assert (await site.post(echo(), key, **ANNA)).status == 200
        clock.later = 3601
        for body, more in (
            (echo(), {"mcp_session_id": key}),
            (initialize(), {}),
            (enveloped(echo()), MODERN_CALL),
        ):
            refused = await site.post(body, None, **ANNA, **more)
            assert (refused.status, refused.json["error"]) == (401, ENDED)
            assert refused.headers["www-authenticate"] == 'Bearer realm="roots-hub"'
        assert (await site.post(echo(), other, **BEN)).status == 200


async def test_the_next_message_ends_what_the_token_has_opened() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with an_hour(child) as (site, clock):
        key, other = await site.session(sent=ANNA), await site.session(sent=BEN)
        own, others = await streams(site, key, ANNA), await streams(site, other, BEN)
        call = site.start("POST", key, echo(), **ANNA)
        await (await child.connected()).request("tools/call")
        clock.later = 3601
        assert (await site.post(asked("ping"), key, **ANNA)).status == 401
        assert NO_TOKEN in (await call.over()).json["error"]["message"]
        for stream in own:
            await stream.over()
        assert not any(stream.is_over for stream in others)
        assert (await site.post(asked("ping"), other, **BEN)).status == 200


async def test_without_a_message_it_ends_in_time() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with an_hour(child) as (site, _):
        key = await site.session(sent=ANNA)
        own = await streams(site, key, ANNA)
        call = site.start("POST", key, echo(), **ANNA)
        await (await child.connected()).request("tools/call")
        site.keeper.follow(ending(time.time() + 0.05), (), ())  # it ends earlier than it was said
        assert NO_TOKEN in (await call.over()).json["error"]["message"]
        for stream in own:
            await stream.over()
        assert (await site.post(asked("ping"), key, **ANNA)).status == 401


@virtual_time
async def test_it_ends_although_the_clock_was_set_or_the_machine_was_asleep() -> None:
    async with an_hour() as (site, clock):
        await site.session(sent=ANNA)
        clock.later = 3601
        await site.until_closed(1)


async def test_a_token_that_is_given_more_time_counts_again_from_the_next_request() -> None:
    async with an_hour() as (site, clock):
        key = await site.session(sent=ANNA)
        site.keeper.follow(ending(time.time() + 9000), (), ())
        clock.later = 3601
        assert (await site.post(echo(), key, **ANNA)).status == 200
        site.keeper.follow(ending(time.time()), (), ())
        assert (await site.post(initialize(), None, **ANNA)).status == 401
        assert [one.session.principal for one in site.closed] == ["anna"]
        site.keeper.follow(BearerTokens(None, HASHES), (), ())
        assert (await site.post(initialize(), None, **ANNA)).status == 200


async def test_a_body_that_comes_after_the_tokens_end_is_refused() -> None:
    async with an_hour() as (site, _):
        request = site.start("POST", None, initialize(), **ANNA)
        request.sends = anyio.Event()
        await request.awaited()
        site.keeper.follow(ending(time.time()), (), ())
        request.sends.set()
        assert (await request.over()).status == 401


async def test_the_log_names_a_token_that_has_ended_once() -> None:
    with capture_logs() as lines:
        async with an_hour() as (site, clock):
            clock.later = 3601
            for _ in range(3):
                await site.post(initialize(), None, **ANNA)
            site.keeper.follow(ending(time.time()), (), ())
    told: list[Any] = [line for line in lines if "anna" in str(line)]
    assert told == [
        {
            "event": "token has ended",
            "log_level": "warning",
            "name": "anna",
            "fix": "roots-hub token new anna --days 90",
        }
    ]
    assert not any("of anna" in str(line) for line in lines)


def test_a_token_that_has_ended_before_the_start_is_named_at_the_start() -> None:
    with capture_logs() as lines:
        keeper = AccessCheck("192.0.2.1", Credentials(ending(1.0)))
    assert [(line["event"], line["name"]) for line in lines] == [("token has ended", "anna")]
    assert not keeper.knows("anna")
    assert keeper.knows("ben")
