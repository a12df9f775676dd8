"""A call sends its user to the login of a server: the SDK's client, a real authorization server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import httpx2
import pytest
from anyio import to_thread
from mcp.types import CallToolResult, ElicitResult
from msgspec.structs import replace

from hub.logins.login_files import LoginFiles
from tests.kit.warm import ROOTS_HUB, WARM_HUB
from tests.live.programs import SOON, SharedFolders, config_file, connected, environment, text_of
from tests.live.test_logins import browse, issuer, remote, run

__all__ = ["issuer", "remote"]
pytestmark = pytest.mark.live


Action: TypeAlias = Literal["accept", "decline"]


class PersonAsked:
    """Logs in where a client sends them, or does not."""

    def __init__(self, action: Action = "accept") -> None:
        self.asked: list[Any] = []
        self._action: Action = action

    async def elicit(self, context: object, params: Any) -> ElicitResult:
        self.asked.append(params)
        if self._action == "accept":
            await to_thread.run_sync(self._log_in, params.url)
        return ElicitResult(action=self._action)

    def _log_in(self, url: str) -> None:
        assert "The answer has come" in httpx2.get(browse(url, "anna")).text


@pytest.fixture
def config(tmp_path: Path, remote: str) -> str:
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    run("logout", "far", "--config", config)
    return config


@pytest.mark.parametrize(("mode", "hub"), [("legacy", ROOTS_HUB), ("auto", WARM_HUB)])
async def test_a_call_goes_on_after_its_user_has_logged_in(
    tmp_path: Path, config: str, mode: Literal["legacy", "auto"], hub: str
) -> None:
    person, command = PersonAsked(), [hub, "run", "--config", config]
    async with connected(
        command,
        SharedFolders([tmp_path]),
        cwd=tmp_path,
        mode=mode,
        elicitation_callback=person.elicit,
    ) as client:
        result = await client.call_tool("remember", {"text": "1"})
        assert json.loads(text_of(result)) == ["1"], result
        assert json.loads(text_of(await client.call_tool("remember", {"text": "2"}))) == ["1", "2"]
    (asked,) = person.asked
    assert asked.mode == "url"
    assert asked.message.startswith("The server 'far' wants you to log in.")
    assert "logged in by" in run("login", "--config", config).stdout


async def test_a_login_that_has_ended_is_asked_for_by_the_next_call(
    tmp_path: Path, config: str, remote: str
) -> None:
    person, command = PersonAsked(), [WARM_HUB, "run", "--config", config]
    files = LoginFiles(Path(os.environ["XDG_STATE_HOME"]) / "roots-hub")
    async with connected(
        command, SharedFolders([tmp_path]), cwd=tmp_path, elicitation_callback=person.elicit
    ) as client:
        await client.call_tool("remember", {"text": "1"})
        login = files.read(remote)
        assert login is not None
        wrong = {"access_token": "wrong", "refresh_token": "wrong"}
        files.write(remote, replace(login, **wrong, expires=login.issued))
    async with connected(
        command, SharedFolders([tmp_path]), cwd=tmp_path, elicitation_callback=person.elicit
    ) as client:
        result = await client.call_tool("remember", {"text": "2"})
        assert "its login has ended" in text_of(result)
        assert "the login has ended" in run("login", "--config", config).stdout
        result = await client.call_tool("remember", {"text": "3"})
        assert not result.is_error, result
    assert len(person.asked) == 2


def test_the_process_of_a_login_ends_with_the_hub(tmp_path: Path, remote: str) -> None:
    program = [sys.executable, "-P", "-m", "hub.cli.logins.for_hub"]
    with subprocess.Popen(  # noqa: S603 - ours
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        order = {"url": remote, "directory": str(tmp_path)}
        running.stdin.write(json.dumps(order).encode() + b"\n")
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["type"] == "page"
        running.stdin.close()
        assert running.wait(SOON) == 1


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_who_does_not_want_to_is_not_asked_again_at_once(
    tmp_path: Path, config: str, mode: Literal["legacy", "auto"]
) -> None:
    person, command = PersonAsked("decline"), [WARM_HUB, "run", "--config", config]
    async with connected(
        command,
        SharedFolders([tmp_path]),
        cwd=tmp_path,
        mode=mode,
        elicitation_callback=person.elicit,
    ) as client:
        for _ in range(3):
            result = await client.call_tool("remember", {"text": "1"})
            assert result.is_error
            assert "roots-hub login far" in text_of(result)
    assert len(person.asked) == 1


@pytest.mark.parametrize("action", ["accept", "decline"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_calls_at_once_ask_once(
    tmp_path: Path,
    config: str,
    mode: Literal["legacy", "auto"],
    action: Action,
) -> None:
    person, command = PersonAsked(action), [WARM_HUB, "run", "--config", config]
    results: list[CallToolResult] = []
    async with connected(
        command,
        SharedFolders([tmp_path]),
        cwd=tmp_path,
        mode=mode,
        elicitation_callback=person.elicit,
    ) as client:

        async def remember(text: str) -> None:
            results.append(await client.call_tool("remember", {"text": text}))

        async with anyio.create_task_group() as tasks:
            for text in "123":
                tasks.start_soon(remember, text)
    assert len(person.asked) == 1
    assert [bool(one.is_error) for one in results] == [action == "decline"] * 3


async def test_a_client_that_fails_to_ask_leaves_it_to_the_next_call(
    tmp_path: Path, config: str
) -> None:
    asked: list[str] = []

    async def elicit(context: object, params: Any) -> ElicitResult:
        asked.append(params.url)
        raise RuntimeError("no browser")

    command = [WARM_HUB, "run", "--config", config]
    async with connected(
        command, SharedFolders([tmp_path]), cwd=tmp_path, elicitation_callback=elicit
    ) as client:
        with anyio.fail_after(SOON):
            for _ in range(2):
                result = await client.call_tool("remember", {"text": "1"})
                assert "roots-hub login far" in text_of(result)
    assert len(asked) == 2
    assert len(set(asked)) == 1


async def test_a_server_that_is_not_there_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    config = config_file(tmp_path, {"far": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}})
    person, command = PersonAsked(), [WARM_HUB, "run", "--config", config]
    async with connected(
        command, SharedFolders([tmp_path]), cwd=tmp_path, elicitation_callback=person.elicit
    ) as client:
        result = await client.call_tool("remember", {"text": "1"})
    assert result.is_error
    assert "nobody is logged in at far" in text_of(result)
    assert person.asked == []


async def test_a_client_that_cannot_ask_its_user_is_told_the_command(
    tmp_path: Path, config: str
) -> None:
    command = [WARM_HUB, "run", "--config", config]
    async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path) as client:
        result = await client.call_tool("remember", {"text": "1"})
        assert result.is_error
        assert "roots-hub login far" in text_of(result)
