"""Clients with a token each, over real HTTP: nothing of one reaches the other."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from hub.protocol.http_headers import token_hash
from tests.kit.trees import plant
from tests.kit.warm import WARM_HUB, ran
from tests.live.attaching import hubs, run, until
from tests.live.programs import SOON, SharedFolders, call, config_file, environment, http_hub
from tests.live.test_http_endpoint import HEADERS, INITIALIZE, PING, post

TOKENS = {"anna": "rh_of-anna-0123456789", "ben": "rh_of-ben-0123456789"}
SERVERS = {
    "keeping": {
        "command": sys.executable,
        "args": [str(Path(__file__).parent / "keeping_child.py")],
        "share": "roots",
    }
}

CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "get-roots", "arguments": {}},
}


def named(**tokens: str) -> dict[str, Any]:
    return {"tokens": [{"name": name, "sha256": token_hash(of)} for name, of in tokens.items()]}


@asynccontextmanager
async def client_of(
    url: str, token: str, folder: Path, mode: Literal["legacy", "auto"]
) -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SOON) as http:
        reached = streamable_http_client(url, http_client=http)
        async with Client(
            reached, list_roots_callback=SharedFolders([folder]), mode=mode
        ) as client:
            yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_principals_with_the_same_roots_share_no_process(
    tmp_path: Path, mode: Literal["legacy", "auto"]
) -> None:
    top = plant(tmp_path, "a/f")
    audit = tmp_path / "audit.jsonl"
    config = config_file(tmp_path, SERVERS, listen=named(**TOKENS), audit={"file": str(audit)})
    with http_hub("--config", config, cwd=tmp_path) as url:
        async with (
            client_of(url, TOKENS["anna"], top / "a", mode) as anna,
            client_of(url, TOKENS["ben"], top / "a", mode) as ben,
            client_of(url, TOKENS["anna"], top / "a", mode) as again,
        ):
            assert json.loads(await call(anna, "remember", text="1")) == ["1"]
            assert json.loads(await call(ben, "remember", text="2")) == ["2"]
            assert json.loads(await call(again, "remember", text="3")) == ["1", "3"]
            assert await call(anna, "pid") != await call(ben, "pid")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {line["principal"] for line in lines} == {"anna", "ben"}
    assert not any(token in audit.read_text() for token in TOKENS.values())


def test_a_token_that_is_taken_out_lets_nobody_in_any_more(tmp_path: Path) -> None:
    config = Path(config_file(tmp_path, SERVERS, listen=named(**TOKENS)))
    with http_hub("--config", str(config), cwd=tmp_path) as url:
        anna, ben = ({"authorization": f"Bearer {token}"} for token in TOKENS.values())
        keys = [post(url, INITIALIZE, **sent).headers["mcp-session-id"] for sent in (anna, ben)]
        assert post(url, PING, **anna, mcp_session_id=keys[0]).status_code == 200
        assert post(url, PING, **anna, mcp_session_id=keys[1]).status_code == 404
        left = {"version": 1, "servers": SERVERS, "listen": named(ben=TOKENS["ben"])}
        config.write_text(json.dumps(left))
        until(lambda: hubs(str(config), tmp_path))
        assert "listen.tokens" in run("reload", "--config", str(config), cwd=tmp_path).stdout
        assert post(url, PING, **anna, mcp_session_id=keys[0]).status_code == 401
        assert post(url, PING, **ben, mcp_session_id=keys[1]).status_code == 200


@pytest.mark.parametrize("also", ["match", "mistake", "last"])
def test_a_token_that_a_wrong_config_takes_out_lets_nobody_in_any_more(
    tmp_path: Path, also: str
) -> None:
    profiles = {"robots": {"match": {"tokens": ["anna"]}}, "rest": {}}
    profiles = profiles if also == "match" else {}
    left = {} if also == "last" else named(ben=TOKENS["ben"])
    before = {"servers": SERVERS, "profiles": profiles, "version": 1}
    config = tmp_path / "hub.yaml"
    config.write_text(json.dumps({**before, "listen": named(**TOKENS)}))
    with http_hub("--config", str(config), cwd=tmp_path) as url:
        anna, ben = ({"authorization": f"Bearer {token}"} for token in TOKENS.values())
        keys = [post(url, INITIALIZE, **sent).headers["mcp-session-id"] for sent in (anna, ben)]
        sent = {**anna, "mcp-session-id": keys[0], "accept": "text/event-stream"}
        with httpx2.stream("GET", url, headers=sent, timeout=SOON) as stream:
            assert stream.status_code == 200
            mistake = {} if also == "match" else {"gaurd": "enforce"}
            config.write_text(json.dumps({**before, **mistake, "listen": left}))
            until(lambda: post(url, PING, **anna, mcp_session_id=keys[0]).status_code == 401)
            stream.read()  # to its end
        assert post(url, INITIALIZE, **anna).status_code == 401
        assert post(url, INITIALIZE).status_code == 401
        status = 401 if also == "last" else 200
        assert post(url, PING, **ben, mcp_session_id=keys[1]).status_code == status
        state = run("status", "--config", str(config), cwd=tmp_path).stdout
        assert ("there is no token anna" if also == "match" else "gaurd") in state


def test_a_token_that_has_ended_lets_nobody_in_any_more(tmp_path: Path) -> None:
    listen = named(**TOKENS)
    config = Path(config_file(tmp_path, SERVERS, listen=listen))

    def change(end: str) -> None:
        listen["tokens"][0]["expires"] = end
        whole = {"version": 1, "servers": SERVERS, "listen": listen}
        config.write_text(json.dumps(whole))
        assert "listen.tokens" in run("reload", "--config", str(config), cwd=tmp_path).stdout

    with http_hub("--config", str(config), cwd=tmp_path) as url:
        anna, ben = ({"authorization": f"Bearer {token}"} for token in TOKENS.values())
        keys = [post(url, INITIALIZE, **sent).headers["mcp-session-id"] for sent in (anna, ben)]
        until(lambda: hubs(str(config), tmp_path))
        # The same headers come again and again: what was found of them is remembered.
        with httpx2.Client() as client:
            sent = {**HEADERS, **anna, "mcp-session-id": keys[0]}

            def status() -> int:
                return client.post(url, content=json.dumps(CALL), headers=sent).status_code

            answered = {status()}
            end = datetime.now(UTC) + timedelta(seconds=3)
            change(end.isoformat())
            until(lambda: answered.add(status()) or 401 in answered)
        assert datetime.now(UTC) >= end
        assert answered == {200, 401}
        assert post(url, PING, **ben, mcp_session_id=keys[1]).status_code == 200
        change("2999-12-31")
        assert post(url, PING, **anna, mcp_session_id=keys[0]).status_code == 404
        assert post(url, INITIALIZE, **anna).status_code == 200


def test_a_new_token_lets_in(tmp_path: Path) -> None:
    made = ran([WARM_HUB, "token", "new", "anna"], timeout=SOON, env=environment())
    assert made.returncode == 0
    token = made.stdout.strip()
    shown = made.stderr.partition("\n")[2]
    config = tmp_path / "hub.yaml"
    servers = json.dumps(SERVERS)
    config.write_text(f"version: 1\n{shown}servers: {servers}\n")
    assert token not in config.read_text()
    with http_hub("--config", str(config), cwd=tmp_path) as url:
        assert post(url, INITIALIZE).status_code == 401
        assert post(url, INITIALIZE, authorization=f"Bearer {token}").status_code == 200
