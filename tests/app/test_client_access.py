"""What lets clients in follows a changed `listen.auth`, before a whole endpoint."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from hub.app.client_access import ClientAccess
from hub.config.models import HubConfig
from hub.errors import ConfigError
from hub.server.http.auth.admission import WELL_KNOWN
from hub.server.http.login_pages.endpoints import LoginPageEndpoints
from tests.kit.asgi import Connection, request
from tests.server.http.auth.issuer import RESOURCE, IssuerSite, public, signed, site
from tests.server.http.login_pages.bench import PageBench
from tests.server.http.test_app import Web, asked, echo, initialize, web

HOST = {"host": "localhost:8765"}


class ChangingEndpoint:
    """An endpoint whose config changes, and two issuers."""

    def __init__(self, access: ClientAccess, at: Web, one: IssuerSite, two: IssuerSite) -> None:
        self.access = access
        self.at = at
        self.one = one
        self.two = two

    def config(self, *issuers: IssuerSite, **auth: Any) -> HubConfig:
        return config_of([{"issuer": each.url} for each in issuers], **auth)

    def take(self, config: HubConfig) -> None:
        self.access.follow(config)

    async def metadata(self) -> Any:
        return (await request(self.at.app, "GET", HOST, path=WELL_KNOWN)).json


def config_of(issuers: list[dict[str, Any]], **auth: Any) -> HubConfig:
    listen: dict[str, Any] = {"tokens": [{"name": "ci", "token": "of ci"}]}
    if issuers:
        listen["auth"] = {"resource": RESOURCE, "issuers": issuers, **auth}
    return HubConfig.model_validate(
        {"version": 1, "listen": listen, "servers": {"files": {"command": "x"}}}
    )


def by(issuer: IssuerSite, **claims: Any) -> dict[str, str]:
    sent = signed(**{"iss": issuer.url, "exp": time.time() + 60, **claims})
    return {"authorization": f"Bearer {sent}"}


NAMED = {"authorization": "Bearer of ci"}


def publish(issuer: IssuerSite) -> IssuerSite:
    issuer.pages["/.well-known/oauth-authorization-server"] = {
        "issuer": issuer.url,
        "jwks_uri": f"{issuer.url}/keys",
    }
    issuer.pages["/keys"] = {"keys": [public("rsa-1")]}
    return issuer


@asynccontextmanager
async def changing(*, both: bool = True, **auth: Any) -> AsyncGenerator[ChangingEndpoint]:
    with ExitStack() as sites:
        one, two = (publish(sites.enter_context(site())) for _ in range(2))
        issuers = [{"issuer": each.url} for each in ((one, two) if both else (one,))]
        access = ClientAccess("127.0.0.1", config_of(issuers, **auth), {})
        async with web(keeper=access.check) as at:
            yield ChangingEndpoint(access, at, one, two)


async def status(at: Web, sent: Mapping[str, str], key: str | None = None) -> int:
    answer: Connection = await at.post(initialize() if key is None else echo(), key, **sent)
    return answer.status


async def test_who_comes_from_an_issuer_that_is_gone_is_let_in_no_more() -> None:
    async with changing() as hub:
        anna, ben = by(hub.one, sub="anna"), by(hub.two, sub="ben")
        mine, other, named = [await hub.at.session(sent=sent) for sent in (anna, ben, NAMED)]
        with anyio.fail_after(20):
            streams = [
                hub.at.start("GET", key, None, accept="text/event-stream", **sent)
                for key, sent in ((mine, anna), (other, ben))
            ]
            for stream in streams:
                await stream.began()
            await anyio.wait_all_tasks_blocked()  # the streams are carried by then
            hub.take(hub.config(hub.two))
            for stream in streams:
                await stream.over()
        assert await status(hub.at, anna, mine) == 401
        assert await status(hub.at, ben, other) == 200
        assert await status(hub.at, NAMED, named) == 200
        ended = [one.session.principal for one in hub.at.closed]
        assert ended == [f"{hub.one.url} anna"]
        assert (await hub.metadata())["authorization_servers"] == [hub.two.url]


async def test_an_issuer_that_is_added_lets_in_and_the_others_keys_are_not_fetched_again() -> None:
    async with changing(both=False) as hub:
        assert await status(hub.at, by(hub.one)) == 200
        assert await status(hub.at, by(hub.two)) == 401
        asked_before = list(hub.one.asked)
        hub.take(hub.config(hub.one, hub.two))
        assert await status(hub.at, by(hub.two)) == 200
        hub.one.pages["/keys"] = 500
        assert await status(hub.at, by(hub.one, sub="another")) == 200
        assert hub.one.asked == asked_before


@pytest.mark.parametrize(
    ("auth", "refused"),
    [
        ({"scopes": ["mcp:tools"]}, 200),
        ({"scopes": ["mcp:more"]}, 403),
        ({"resource": "https://other.example/mcp"}, 401),
    ],
)
async def test_a_token_that_was_verified_is_looked_at_again(
    auth: dict[str, Any], refused: int
) -> None:
    async with changing() as hub:
        key = await hub.at.session(sent=by(hub.one))
        assert await status(hub.at, by(hub.one), key) == 200
        hub.take(hub.config(hub.one, hub.two, **auth))
        assert await status(hub.at, by(hub.one), key) == refused
        hub.take(hub.config(hub.one, hub.two))
        assert await status(hub.at, by(hub.one), key) == 200, "the session is still there"


async def test_other_claims_count_from_the_next_request_on() -> None:
    async with changing() as hub:
        staff = by(hub.one, groups=["staff"])
        assert await status(hub.at, staff) == 200
        wanted = [{"issuer": hub.one.url, "claims": {"groups": ["ops"]}}]
        hub.take(config_of(wanted))
        assert await status(hub.at, staff) == 401
        assert await status(hub.at, by(hub.one, groups=["ops"])) == 200


async def test_without_issuers_the_tokens_of_the_config_are_left() -> None:
    async with changing() as hub:
        key = await hub.at.session(sent=by(hub.one))
        hub.take(config_of([]))
        assert await status(hub.at, by(hub.one), key) == 401
        assert await status(hub.at, NAMED) == 200
        told = await request(hub.at.app, "GET", HOST, path=WELL_KNOWN)
        assert told.status == 401


async def test_where_nobody_needed_a_token_the_first_issuer_ends_what_was_open() -> None:
    with site() as issuer:
        publish(issuer)
        plain = {"version": 1, "servers": {"files": {"command": "x"}}}
        access = ClientAccess("127.0.0.1", HubConfig.model_validate(plain), {})
        async with web(keeper=access.check) as at:
            await at.session()
            auth = {"resource": RESOURCE, "issuers": [{"issuer": issuer.url}]}
            access.follow(HubConfig.model_validate({**plain, "listen": {"auth": auth}}))
            await at.until_closed(1)
            assert await status(at, {}) == 401
            assert await status(at, by(issuer)) == 200


async def test_what_is_the_same_leaves_all_as_it_is() -> None:
    async with changing() as hub:
        key = await hub.at.session(sent=by(hub.one))
        with anyio.fail_after(20):
            stream = hub.at.start("GET", key, None, accept="text/event-stream", **by(hub.one))
            await stream.began()
        hub.take(hub.config(hub.one, hub.two))
        await anyio.wait_all_tasks_blocked()
        assert not stream.is_over
        assert (await hub.at.post(asked("ping"), key, **by(hub.one))).status == 200


async def test_scopes_of_servers_are_told_when_they_change() -> None:
    async with changing() as hub:
        config = hub.config(hub.one, hub.two, scopes=["base"])
        assert "scopes_supported" not in await hub.metadata()
        raw = config.model_dump(include={"version"})
        own = {"files": {"command": "x", "scopes": ["more"]}}
        made = HubConfig.model_validate({**raw, "servers": own})
        hub.take(config.model_copy(update={"servers": made.servers}))
        assert (await hub.metadata())["scopes_supported"] == ["base", "more"]


def proxied(issuer: IssuerSite, **more: Any) -> list[dict[str, Any]]:
    client = {"client_id": "hub", "client_secret": "secret", **more}
    return [{"issuer": issuer.url, "proxy": client}]


async def test_logins_through_the_hub_come_and_go() -> None:
    at = "/.well-known/oauth-authorization-server/mcp"
    async with changing(both=False) as hub:
        assert (await request(hub.at.app, "GET", HOST, path=at)).status == 401
        hub.take(config_of(proxied(hub.one)))
        assert (await request(hub.at.app, "GET", HOST, path=at)).json["issuer"] == RESOURCE
        before = hub.access.check.logins
        hub.take(config_of(proxied(hub.one), scopes=["base"]))
        assert hub.access.check.logins is not before
        told = await request(hub.at.app, "GET", HOST, path=at)
        assert told.json["scopes_supported"] == ["base"]
        hub.take(hub.config(hub.one))
        assert (await request(hub.at.app, "GET", HOST, path=at)).status == 401


def test_an_address_that_others_reach_keeps_its_tokens() -> None:
    auth = {"resource": RESOURCE, "issuers": [{"issuer": "https://i.example"}]}
    config = HubConfig.model_validate({"version": 1, "listen": {"auth": auth}})
    access = ClientAccess("0.0.0.0", config, {})  # noqa: S104 - nothing is bound
    with pytest.raises(ConfigError, match="there is no token"):
        access.follow(HubConfig(version=1))
    assert access.check.resource is not None


async def test_the_pages_for_logins_know_the_people_of_the_issuers_that_are_trusted_now(
    tmp_path: Path,
) -> None:
    async with changing() as hub, anyio.create_task_group() as tasks:
        bench = PageBench(tasks, tmp_path)
        pages = LoginPageEndpoints(bench.steps, "/mcp", hub.access.check.logins)
        hub.access.show_pages(pages)
        own = {"client_id": "hub", "client_secret": "secret"}
        hub.take(config_of([{"issuer": hub.one.url, "pages": own}]))
        assert hub.access.check.logins is pages
        assert [*bench.steps.people.issuers] == [hub.one.url]
        (keeps,) = pages.upkeep
        hub.take(hub.config(hub.one))
        assert hub.access.check.logins is pages
        assert not bench.steps.people.issuers
        assert keeps not in pages.upkeep
        with capture_logs() as logs:
            hub.take(hub.config(hub.one, resource="https://other.example/mcp"))
        assert "keep their address until a restart" in logs[0]["event"]


def test_a_token_of_the_environment_that_no_request_can_have_is_refused() -> None:
    config = HubConfig.model_validate({"version": 1, "servers": {"files": {"command": "x"}}})
    with pytest.raises(ConfigError) as caught:
        ClientAccess("127.0.0.1", config, {"HUB_TOKEN": "s3cret\r"})
    what = "HUB_TOKEN: begins or ends with a blank, or has a character that is not shown"
    assert caught.value.faults[0].said == what
    assert ClientAccess("127.0.0.1", config, {"HUB_TOKEN": "s3cret"}).credentials.tokens


def test_a_confined_server_that_could_be_a_client_is_told() -> None:
    confined = {"command": "x", "confine": "auto"}
    servers = {"held": confined, "free": {"command": "y"}, "far": {"url": "http://far.example"}}
    config = HubConfig.model_validate({"version": 1, "servers": servers})
    with capture_logs() as logs:
        access = ClientAccess("127.0.0.1", config, {})
        access.follow(config)
    assert [(one["log_level"], one["servers"]) for one in logs] == [("warning", ["held"])] * 2
    with capture_logs() as logs:
        ClientAccess("127.0.0.1", config, {"HUB_TOKEN": "s3cret"})
        ClientAccess("127.0.0.1", HubConfig.model_validate({"version": 1}), {})
    assert logs == []


@pytest.mark.parametrize(
    ("host", "names", "token", "is_warned_of"),
    [
        ("192.0.2.1", [], "hunter2", True),
        ("127.0.0.1", ["hub.example.com"], "a" * 40, True),
        ("127.0.0.1", [], "hunter2", False),
        ("192.0.2.1", [], "b7Qm2xW9tKe4Zr8s", False),
    ],
)
def test_a_token_that_others_can_guess_is_warned_of(
    host: str, names: list[str], token: str, is_warned_of: bool
) -> None:
    raw = {"version": 1, "listen": {"names": names}, "servers": {"files": {"command": "x"}}}
    with capture_logs() as logs:
        ClientAccess(host, HubConfig.model_validate(raw), {"HUB_TOKEN": token})
    assert ["easy to guess" in one["event"] for one in logs] == [True] * is_warned_of
