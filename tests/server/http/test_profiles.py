"""Clients before an endpoint with profiles: what each gets, and where it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from hub.app.client_access import profile_rules
from hub.config.models import HubConfig
from hub.protocol.http_headers import token_hash
from hub.protocol.listen_filter import LISTEN
from hub.server.http.auth.credentials import BearerTokens
from hub.values import JsonObject
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild
from tests.server.http.legacy.test_legacy_sessions import Processes
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

NAMES: Final = ("anna", "ben", "eve")
TOKENS: Final = BearerTokens(None, {name: token_hash(f"of {name}") for name in NAMES})
ANNA, BEN, EVE = ({"authorization": f"Bearer of {name}"} for name in NAMES)
PROFILES: Final[dict[str, Any]] = {
    "all": {"match": {"tokens": ["anna"]}},
    "few": {"match": {"tokens": ["anna", "ben"]}, "tools": {"deny": ["read"]}},
}


@asynccontextmanager
async def guarded(
    profiles: Mapping[str, Any] = PROFILES, child: FakeChild | None = None, **keys: Any
) -> AsyncGenerator[Web]:
    child = child or FakeChild(ECHO, READ)
    async with web(child, tokens=TOKENS, config={"profiles": profiles}, **keys) as site:
        yield site


async def change(site: Web, profiles: Mapping[str, Any], **keys: Any) -> None:
    """Have the running hub take over other profiles, as a changed config file would."""
    config: HubConfig = site.hub.own.config
    raw = {**config.model_dump(include={"version", "servers"}), "profiles": profiles, **keys}
    raw["servers"] = {"files": {"command": "x"}}
    made = HubConfig.model_validate(raw)
    site.keeper.follow(TOKENS, (), (), profile_rules(made))
    await site.hub.take(site.hub.own, made)


def calling(name: str) -> JsonObject:
    return {**echo(), "params": {"name": name, "arguments": {}}}


async def modern_call(site: Web, name: str, sent: Mapping[str, str]) -> Connection:
    return await site.post(
        enveloped(calling(name)), None, **{**MODERN_CALL, "mcp_name": name}, **sent
    )


async def tools(site: Web, sent: Mapping[str, str]) -> list[str]:
    answer = await site.modern(asked("tools/list"), None, **sent)
    return [tool["name"] for tool in answer.json["result"]["tools"]]


async def test_each_client_sees_the_tools_of_its_profile() -> None:
    async with guarded() as site:
        assert await tools(site, ANNA) == ["get-roots", "echo", "read"]
        assert await tools(site, BEN) == ["get-roots", "echo"]
        site.path = "/mcp/few"
        assert await tools(site, ANNA) == ["get-roots", "echo"]


async def test_what_a_profile_hides_cannot_be_called_in_either_era() -> None:
    async with guarded() as site:
        for sent, is_there in ((ANNA, True), (BEN, False)):
            key = await site.session(sent=sent)
            answer = await site.post(calling("read"), key, **sent)
            assert ("result" in answer.json) is is_there
            answer = await modern_call(site, "read", sent)
            assert ("result" in answer.json) is is_there


async def test_who_has_no_profile_gets_nothing() -> None:
    async with guarded() as site:
        for body in (initialize(), enveloped(asked("tools/list"))):
            answer = await site.post(body, None, **EVE)
            assert answer.status == 403
            assert "No profile of this hub is for you" in answer.json["error"]
        assert not site.connection_builder


async def test_the_url_of_a_profile_is_for_its_clients_alone() -> None:
    async with guarded() as site:
        for path, sent, status in (
            ("/mcp/all", ANNA, 200),
            ("/mcp/all/", ANNA, 200),
            ("/mcp/few", ANNA, 200),
            ("/mcp/all", BEN, 404),
            ("/mcp/none", BEN, 404),
            ("/mcp/few/more", ANNA, 404),
            ("/mcp/", ANNA, 200),
            ("/mcpall", ANNA, 404),
            ("/mcp/all", {}, 401),
        ):
            site.path = path
            answer = await site.post(initialize(), None, **sent)
            assert (path, answer.status) == (path, status)
        site.path = "/mcp/all"
        hidden = (await site.post(initialize(), None, **BEN)).json["error"]
        site.path = "/mcp/none"
        assert (
            hidden.replace("all", "none")
            == ((await site.post(initialize(), None, **BEN)).json["error"])
        )


async def test_without_profiles_the_endpoint_has_one_url() -> None:
    async with web(tokens=TOKENS) as site:
        site.path = "/mcp/all"
        answer = await site.post(initialize(), None, **ANNA)
        assert answer.status == 404
        assert "the MCP endpoint is /mcp" in answer.json["error"]


async def test_a_profile_without_a_match_is_for_all_without_tokens_too() -> None:
    profiles = {"work": {}, "home": {"tools": {"allow": ["files/echo"]}}}
    async with web(FakeChild(ECHO, READ), config={"profiles": profiles}) as site:
        assert await tools(site, {}) == ["get-roots", "echo", "read"]
        site.path = "/mcp/home"
        assert await tools(site, {}) == ["get-roots", "echo"]


async def test_a_session_is_of_the_profile_that_it_was_opened_with() -> None:
    async with guarded() as site:
        key = await site.session(sent=ANNA)
        site.path = "/mcp/few"
        for method in ("GET", "DELETE"):
            accept = {"accept": "text/event-stream"}
            assert (await site.use(method, key, **ANNA, **accept)).status == 404
        assert (await site.post(echo(), key, **ANNA)).status == 404
        site.path = "/mcp/all"
        assert (await site.post(echo(), key, **ANNA)).status == 200
        assert (await site.post(echo(), key, **ANNA)).status == 200
        site.path = "/mcp/few"
        assert (await site.post(echo(), key, **ANNA)).status == 404


async def test_a_session_of_an_earlier_process_is_adopted_in_its_profile_alone() -> None:
    hub = Processes()
    async with guarded(ids=hub.ids()) as site:
        key = await site.session(sent=ANNA)
    async with guarded(ids=hub.ids()) as site:
        site.path = "/mcp/few"
        assert (await site.post(asked("ping"), key, **ANNA)).status == 404
        site.path = "/mcp"
        assert (await site.post(asked("ping"), key, **ANNA)).status == 200


async def test_clients_of_two_profiles_share_no_process() -> None:
    async with guarded() as site:
        await site.session(sent=ANNA)
        for path in ("/mcp/all", "/mcp/few"):
            site.path = path
            answer = await site.post(enveloped(echo()), None, **MODERN_CALL, **ANNA)
            assert answer.status == 200
        assert len(site.child.links) == 2


async def test_who_loses_a_profile_loses_its_sessions_and_streams() -> None:
    async with guarded() as site:
        key = await site.session(sent=BEN)
        stream = site.start("GET", key, None, **BEN, accept="text/event-stream")
        await stream.began()
        modern = {"mcp_protocol_version": MODERN, "mcp_method": LISTEN}
        listening = site.start("POST", None, enveloped(listen()), **modern, **BEN)
        await listening.heard(1)
        await change(site, {"all": PROFILES["all"]})
        await stream.over()
        await listening.over()
        assert (await site.post(echo(), key, **BEN)).status == 403
        assert (await site.post(initialize(), None, **BEN)).status == 403


async def test_a_change_of_a_profile_counts_from_the_next_message() -> None:
    async with guarded() as site:
        key = await site.session(sent=BEN)
        assert "result" in (await site.post(echo(), key, **BEN)).json
        few = {**PROFILES["few"], "tools": {"deny": ["*"]}}
        await change(site, {**PROFILES, "few": few})
        assert "error" in (await site.post(echo(), key, **BEN)).json
        assert await tools(site, BEN) == ["get-roots"]
        await change(site, PROFILES)
        assert "result" in (await site.post(echo(), key, **BEN)).json


async def test_profiles_can_come_and_go_while_the_hub_runs() -> None:
    async with web(FakeChild(ECHO, READ), tokens=TOKENS) as site:
        key = await site.session(sent=EVE)
        await change(site, PROFILES)
        assert (await site.post(echo(), key, **EVE)).status == 403
        assert await tools(site, BEN) == ["get-roots", "echo"]
        await change(site, {})
        assert (await site.post(echo(), key, **EVE)).status == 200
        assert await tools(site, BEN) == ["get-roots", "echo", "read"]


async def test_a_body_that_comes_after_a_change_is_served_by_the_new_profile() -> None:
    async with guarded() as site:
        modern = {"mcp_protocol_version": MODERN, "mcp_method": "tools/list"}
        request = site.start("POST", None, enveloped(asked("tools/list")), **modern, **BEN)
        request.sends = anyio.Event()
        await request.awaited()
        await change(site, {"all": PROFILES["all"]})
        request.sends.set()
        assert (await request.over()).status == 403


async def test_a_call_under_way_ends_with_its_child_in_the_old_profile() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with guarded(child=child) as site:
        key = await site.session(sent=BEN)
        call = site.start("POST", key, echo(), **BEN)
        link = await child.connected()
        sent = await link.request("tools/call")
        await change(site, {"all": PROFILES["all"]})
        link.answer(sent["id"], {"content": []})
        assert (await call.over()).json["result"] == {"content": []}


async def test_get_roots_tells_the_profile_and_nothing_of_others() -> None:
    nothing: list[str] = []
    async with guarded({"all": PROFILES["all"], "none": {"servers": nothing}}) as site:
        for sent, name, servers in ((ANNA, "all", ["files"]), (BEN, "none", nothing)):
            report = (await modern_call(site, "get-roots", sent)).json["result"][
                "structuredContent"
            ]
            assert report["profile"] == name
            assert [one["name"] for one in report["servers"]] == servers


async def test_a_profile_that_is_gone_writes_to_the_audit_log_of_the_config(tmp_path: Path) -> None:
    async with guarded() as site:
        gone = dict(site.hub.own.profiles)
        await change(site, {}, audit={"file": str(tmp_path / "audit.jsonl")})
        assert gone
        assert all(one.audit is site.hub.services.audit for one in gone.values())


async def test_another_order_of_the_profiles_ends_the_streams() -> None:
    async with guarded() as site:
        key = await site.session(sent=ANNA)
        modern = {"mcp_protocol_version": MODERN, "mcp_method": LISTEN}
        streams = [
            site.start("GET", key, None, **ANNA, accept="text/event-stream"),
            site.start("POST", None, enveloped(listen()), **modern, **ANNA),
        ]
        for stream in streams:
            await stream.began()
        assert await tools(site, ANNA) == ["get-roots", "echo", "read"]
        await change(site, dict(reversed(PROFILES.items())))
        for stream in streams:
            await stream.over()
        assert await tools(site, ANNA) == ["get-roots", "echo"]
        assert (await site.post(echo(), key, **ANNA)).status == 404
