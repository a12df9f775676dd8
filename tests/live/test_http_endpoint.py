"""What the HTTP endpoint turns away, and how its sessions and streams behave: without the SDK."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.kit.warm import WARM_HUB, ran
from tests.live.programs import SOON, environment, http_hub

TOKEN = "a-token-of-the-tests"  # noqa: S105 - no secret
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "plain", "version": "1"},
    },
}
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}


@pytest.fixture(scope="module")
def url(tree: Path) -> Generator[str]:
    with http_hub(cwd=tree / "project") as served:
        yield served


@pytest.fixture(scope="module")
def guarded(tree: Path) -> Generator[str]:
    with http_hub(cwd=tree / "project", env={"HUB_TOKEN": TOKEN}) as served:
        yield served


def post(url: str, message: Any, **headers: str) -> httpx2.Response:
    """Post one message; a header named `mcp_session_id` is sent as `mcp-session-id`."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    return httpx2.post(url, content=content, headers={**HEADERS, **more}, timeout=SOON)


def session(url: str) -> str:
    """Begin a session, and return its id."""
    answer = post(url, INITIALIZE)
    assert answer.status_code == 200
    key = answer.headers["mcp-session-id"]
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(url, initialized, mcp_session_id=key).status_code == 202
    return key


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_a_token_is_required_where_one_is_set(
    guarded: str, authorization: str | None, status: int
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = post(guarded, INITIALIZE, **headers)
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN not in answer.text


def test_every_method_needs_the_token(guarded: str) -> None:
    for method in ("GET", "POST", "DELETE", "PUT"):
        assert httpx2.request(method, guarded, headers=HEADERS).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"host": "localhost:1"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost:1", "origin": "http://localhost:1"}, 200),
        ({"origin": "http://127.0.0.1.evil.example"}, 403),
        ({"origin": "http://localhost:6274"}, 403),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/html"}, 406),
        ({"accept": "*/*"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_headers_are_checked(url: str, headers: Mapping[str, str], status: int) -> None:
    assert post(url, INITIALIZE, **headers).status_code == status


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"initialize"}', -32600),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
            -32600,
        ),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    ],
    ids=["cut", "no UTF-8", "batch", "a key twice", "deep", "no JSON-RPC", "no method"],
)
def test_a_bad_message_gets_an_error_and_the_session_lives_on(
    url: str, body: bytes, code: int
) -> None:
    key = session(url)
    answer = post(url, body, mcp_session_id=key)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert post(url, PING, mcp_session_id=key).json()["result"] == {}


def test_a_message_that_is_too_large_is_turned_away(url: str) -> None:
    large = {**PING, "params": {"x": "x" * (70 * 1024 * 1024)}}
    assert post(url, large).status_code == 413


def test_other_paths_and_methods_are_not_there(url: str) -> None:
    assert httpx2.post(url + "x", headers=HEADERS, content=b"{}").status_code == 404
    assert httpx2.get(url.removesuffix("/mcp")).status_code == 404
    for method in ("PUT", "PATCH", "OPTIONS", "HEAD"):
        assert httpx2.request(method, url, headers=HEADERS).status_code == 405
    assert httpx2.get(url.removesuffix("/mcp") + "/health").json() == {"status": "ok"}


def test_a_session_must_be_named_and_exist(url: str) -> None:
    assert post(url, PING).status_code == 400
    assert post(url, PING, mcp_session_id="nope").status_code == 404
    assert httpx2.get(url, headers={"accept": "text/event-stream"}).status_code == 400
    assert httpx2.delete(url, headers={"mcp-session-id": "nope"}).status_code == 404


def test_a_deleted_session_is_gone(url: str) -> None:
    key = session(url)
    assert post(url, PING, mcp_session_id=key).status_code == 200
    assert httpx2.delete(url, headers={"mcp-session-id": key}).status_code == 200
    assert post(url, PING, mcp_session_id=key).status_code == 404
    assert httpx2.delete(url, headers={"mcp-session-id": key}).status_code == 404


def test_a_get_stream_carries_what_belongs_to_no_request(url: str) -> None:
    answer = post(
        url, {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": {"roots": {}}}}
    )
    headers = {"mcp-session-id": answer.headers["mcp-session-id"], "accept": "text/event-stream"}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(url, initialized, **headers_of(headers)).status_code == 202
    with httpx2.stream("GET", url, headers=headers, timeout=SOON) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        while not (data := next(lines)).startswith("data: {"):
            pass
        asked = json.loads(data.removeprefix("data: "))
        assert asked["method"] == "roots/list"
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        assert post(url, reply, **headers_of(headers)).status_code == 202
        assert httpx2.delete(url, headers=headers).status_code == 200
        assert [line for line in lines if line.startswith("data: ")] == []


def headers_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the session's header as `post` wants it."""
    return {"mcp_session_id": headers["mcp-session-id"]}


def run(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `roots-hub`, which must end by itself."""
    return ran([WARM_HUB, *arguments], timeout=SOON, cwd=cwd, env=environment(**env))


def test_a_bind_that_others_can_reach_needs_a_token(tree: Path) -> None:
    done = run("run", "--http", "0.0.0.0:0", cwd=tree / "project")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == (
        "roots-hub: listen: 0.0.0.0 can be reached from other machines, and there is no token\n"
        "Set the variable HUB_TOKEN, listen.token or listen.tokens, or bind 127.0.0.1.\n"
    )


def test_a_port_in_use_is_said(tree: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = run("run", "--http", f"127.0.0.1:{port}", cwd=tree / "project")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert f"127.0.0.1:{port}: Address already in use" in done.stderr


def test_a_missing_root_is_said(tree: Path) -> None:
    done = run("run", "--http", "127.0.0.1:0", "--root", "/no/such/folder", cwd=tree)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert "/no/such/folder" in done.stderr


def test_a_bad_config_is_said_with_its_place_and_nothing_starts(tree: Path) -> None:
    file = tree / "bad.yaml"
    file.write_text("version: 1\nservers:\n  files:\n    comand: npx\n")
    done = run("run", "--config", str(file), cwd=tree)
    assert done.returncode == 3
    assert "servers.files" in done.stderr


async def test_a_session_lives_on_when_a_request_is_abandoned(url: str) -> None:
    key = session(url)
    listing = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
    async with httpx2.AsyncClient(headers={**HEADERS, "mcp-session-id": key}) as http:
        with anyio.move_on_after(0.01):
            await http.post(url, content=json.dumps(listing))
        again = json.dumps({**listing, "id": 4})
        answer = await http.post(url, content=again, timeout=SOON)
        assert "read_file" in answer.text
