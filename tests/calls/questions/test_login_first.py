from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from msgspec.structs import replace

from hub.calls.questions.login_first import LoginFirst
from hub.children.clients import InputNeededError
from hub.errors import ChildError
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Asked
from hub.logins.login_process import LIMIT, LoginRuns
from hub.protocol.input_requests import LOGIN_KEY, NO_RETRY, RetryInput
from hub.sessions.logins import ServerLogins
from hub.sessions.session import Session
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.values import JsonObject, ServerName
from tests.kit.fakes import RecordingOutlet
from tests.kit.loops import virtual_time
from tests.logins.test_login_files import LOGIN

URL = "http://127.0.0.1:9/far"
SPEC = ServerSpec(ServerName("far"), RemoteTarget(URL, login=RemoteLogin()))
ACCEPTED = RetryInput(responses={LOGIN_KEY: {"action": "accept"}}, is_retry=True)


class Pages:
    """Login pages with an address for each server and principal."""

    def redirect(self, server: ServerName) -> str:
        return f"https://hub/{server}/callback"

    def address(self, server: ServerName, principal: str) -> str | None:
        return f"https://hub/{server}?{principal}"

    def link(self, server: ServerName, principal: str) -> str | None:
        return f"https://hub/{server}?ticket={principal}"


class DecliningPeer:
    """A client of the handshake era that does not want to log in."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, JsonObject]] = []

    async def request(self, method: str, params: JsonObject, **_: object) -> JsonObject:
        self.requests.append((method, params))
        return {"action": "decline"}


def session_of(
    principal: str, *, is_modern: bool = True, peer: DecliningPeer | None = None
) -> Session:
    """Return as much of a client's session as a login needs."""
    client = SimpleNamespace(is_modern=is_modern, capabilities={"elicitation": {"url": {}}})
    return cast("Any", SimpleNamespace(client=client, identity=principal, peer=peer))


def asked() -> Asked:
    return Asked(Request(1, "tools/call", {}), RecordingOutlet())


@virtual_time
async def test_a_person_who_is_asked_has_time_from_then_on_and_no_call_waits_for_ever(
    tmp_path: Path,
) -> None:
    async with anyio.create_task_group() as tasks:
        logins = ServerLogins(LoginRuns(tasks, os.environ, tmp_path))
        logins.pages = Pages()
        first, anna = LoginFirst(logins), session_of("anna")

        async def ask_every(seconds: float) -> None:
            while True:
                with pytest.raises(InputNeededError):
                    await first.ask(anna, asked(), NO_RETRY, SPEC)
                await anyio.sleep(seconds)

        tasks.start_soon(ask_every, 200)  # and each waits a minute for the one before
        await anyio.sleep(1)
        began = anyio.current_time()
        with pytest.raises(ChildError, match="nobody has gone on to it"):
            await first.ask(anna, asked(), ACCEPTED, SPEC)
        assert anyio.current_time() - began == pytest.approx(2 * LIMIT, abs=1)
        assert logins.runs.under_way(URL, "anna") is not None, "others still wait for it"
        tasks.cancel_scope.cancel()


async def test_a_client_of_the_handshake_era_is_asked_by_a_request_and_not_again_if_it_declines(
    tmp_path: Path,
) -> None:
    async with anyio.create_task_group() as tasks:
        logins = ServerLogins(LoginRuns(tasks, os.environ, tmp_path))
        logins.pages = Pages()
        first, peer = LoginFirst(logins), DecliningPeer()
        gone = session_of("anna", is_modern=False)
        await first.ask(gone, asked(), NO_RETRY, SPEC)
        anna = session_of("anna", is_modern=False, peer=peer)
        with pytest.raises(ChildError, match="does not want to log in now"):
            await first.ask(anna, asked(), NO_RETRY, SPEC)
        ((method, params),) = peer.requests
        assert (method, params["mode"]) == ("elicitation/create", "url")
        assert params["url"] == "https://hub/far?ticket=anna"
        await first.ask(anna, asked(), NO_RETRY, SPEC)
        assert len(peer.requests) == 1
        tasks.cancel_scope.cancel()


async def test_a_call_that_finds_a_login_lets_its_server_start_before_the_process_says_so(
    tmp_path: Path,
) -> None:
    kept: list[tuple[str, str]] = []
    async with anyio.create_task_group() as tasks:
        logins = ServerLogins(LoginRuns(tasks, os.environ, tmp_path))
        logins.runs.kept = lambda url, owner: kept.append((url, owner))
        logins.files(RemoteLogin(), "").write(URL, replace(LOGIN, expires=None))
        first, call = LoginFirst(logins), session_of("stdio")
        await first.ask(call, asked(), ACCEPTED, SPEC)
        assert kept == [], "no login is under way"
        run = logins.runs.wanted(URL, "")
        for _ in range(2):
            await first.ask(call, asked(), ACCEPTED, SPEC)
        assert kept == [(URL, "")]
        assert not run.over.is_set()
        tasks.cancel_scope.cancel()
