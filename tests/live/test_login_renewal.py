"""Logins that end while a hub uses them: renewed, revoked, and after the server's issuer changed.

LOGIN_TIMES says how often hubs come and go; tokens last three seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import pytest
from mcp import Client

from tests.kit.warm import WARM_HUB
from tests.live.programs import (
    SharedFolders,
    authorization_server,
    call,
    config_file,
    connected,
    login_wanting_hub,
)
from tests.live.test_logins import browse, logging_in
from tests.live.test_named_tokens import SERVERS
from tests.live.test_oauth import SCOPE

LASTS: Final = 3
TIMES: Final = int(os.environ.get("LOGIN_TIMES", "3"))
"""So often hubs come and go, and a login is renewed."""
AT_ONCE: Final = 32
PAUSE: Final = 0.2
"""Seconds between two calls of one caller: enough are always under way, and others can compute."""

pytestmark = pytest.mark.live


@pytest.fixture
def issued(resource: str, tmp_path: Path, npm_package: Callable[[str], str]) -> Callable[[], Any]:
    """Return what runs an authorization server whose tokens last a short time."""
    node = npm_package("oidc-provider")
    return partial(authorization_server, node, resource, SCOPE, str(LASTS), cwd=tmp_path)


def remote(tmp_path: Path, resource: str, issuer: str) -> AbstractContextManager[str]:
    return login_wanting_hub(tmp_path / "remote", resource, issuer, SERVERS)


def log_in(config: str, state: dict[str, str]) -> None:
    with logging_in(config, env=state) as (running, url):
        httpx2.get(browse(url, "anna"))
    assert running.returncode == 0


def counts(issuer: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = httpx2.get(f"{issuer}/counts").json()
    return found


def renewals(issuer: str) -> int:
    return counts(issuer)["given"].get("refresh_token", 0)


async def call_until(is_over: Callable[[], bool], client: Client) -> int:
    """Make calls, many at once, until `is_over`; return how many."""
    made = 0

    async def one_after_another() -> None:
        nonlocal made
        while not is_over():
            assert (await call(client, "pid")).isdigit()
            made += 1
            await anyio.sleep(PAUSE)

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(one_after_another)
    return made


async def test_hubs_that_come_and_go_renew_a_login_once_each_time(
    tmp_path: Path, resource: str, issued: Callable[[], Any]
) -> None:
    """The issuer takes a refresh token once; a second use of one would end the login."""
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with issued() as issuer, remote(tmp_path, resource, issuer) as url:
        config = config_file(tmp_path, {"far": {"url": url, "auth": "oauth"}})
        log_in(config, state)
        command = [WARM_HUB, "run", "--config", config]
        begun, enough, made = time.monotonic(), anyio.Event(), list[int]()

        async def stays() -> None:
            async with connected(
                command, SharedFolders([tmp_path]), cwd=tmp_path, env=state
            ) as client:
                made.append(await call_until(enough.is_set, client))

        async def comes_and_goes() -> None:
            while len(made) < TIMES or renewals(issuer) < TIMES:
                async with connected(command, SharedFolders([tmp_path]), env=state) as client:
                    end = time.monotonic() + 1
                    made.append(await call_until(lambda: time.monotonic() >= end, client))  # noqa: B023 - it is over by then
            enough.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stays)
            tasks.start_soon(comes_and_goes)
        took, found = time.monotonic() - begun, counts(issuer)
    assert min(made) > 0
    assert found["refused"] == {}
    assert found["given"]["refresh_token"] <= took / (LASTS * 0.8) + 1


async def test_a_login_that_is_revoked_stops_its_server_alone_until_the_next_one(
    tmp_path: Path, resource: str, issued: Callable[[], Any]
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with issued() as issuer, remote(tmp_path, resource, issuer) as url:
        config = config_file(tmp_path, {"far": {"url": url, "auth": "oauth"}, **SERVERS})
        log_in(config, state)
        command = [WARM_HUB, "run", "--config", config]
        async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path, env=state) as client:
            assert (await call(client, "far__pid")).isdigit()
            httpx2.get(f"{issuer}/forget")
            while (text := await call(client, "far__pid")).isdigit():  # noqa: ASYNC110 - polled
                await anyio.sleep(PAUSE)
            assert "its login has ended" in text
            assert "roots-hub login far" in text
            assert (await call(client, "keeping__pid")).isdigit()
            asked = counts(issuer)["refused"]["refresh_token"]
            for _ in range(20):
                assert "roots-hub login far" in await call(client, "far__pid")
            assert counts(issuer)["refused"]["refresh_token"] - asked <= 3
            log_in(config, state)
            while not (await call(client, "far__pid")).isdigit():  # noqa: ASYNC110 - polled
                await anyio.sleep(PAUSE)


async def test_where_a_server_names_another_issuer_it_gets_nothing_of_the_login(
    tmp_path: Path, resource: str, issued: Callable[[], Any]
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with issued() as issuer, issued() as other:
        config = config_file(tmp_path, {"far": {"url": resource, "auth": "oauth"}})
        command = [WARM_HUB, "run", "--config", config]
        with remote(tmp_path, resource, issuer):
            log_in(config, state)
        async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path, env=state) as client:
            with remote(tmp_path, resource, other):
                while "roots-hub login far" not in json.dumps(await reasons(client)):
                    await client.list_tools()
                    await anyio.sleep(PAUSE)
                assert counts(other) == {"given": {}, "refused": {}}
                log_in(config, state)
                while "pid" not in [t.name for t in (await client.list_tools()).tools]:  # noqa: ASYNC110 - polled
                    await anyio.sleep(PAUSE)
                assert (await call(client, "pid")).isdigit()
                assert list(counts(other)["given"]) == ["authorization_code"]


async def reasons(client: Client) -> list[str | None]:
    report = json.loads(await call(client, "get-roots"))
    return [server.get("reason") for server in report["servers"]]
