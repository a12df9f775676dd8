"""Many clients before few children: each gets its own answers, and nobody another's child."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp.types import EmptyResult, PingRequest

from tests.kit.trees import plant
from tests.live.plain_http import PlainClient, plain_client
from tests.live.programs import SharedFolders, call, config_file, connected, http_hub, roots_changed

MANY = {
    "command": sys.executable,
    "args": [str(Path(__file__).parent / "many_child.py")],
    "share": "roots",
}


async def test_callers_with_equal_ids_get_each_their_own_answer(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f")
    config = config_file(tmp_path, {"many": {**MANY, "concurrency": 64}})
    wrong: list[str] = []

    async def ask(client: PlainClient, number: int) -> None:
        for turn in range(10):
            text = f"{number}/{turn}"
            if await client.call(1, "echo", text=text) != text:
                wrong.append(text)

    with http_hub("--config", config, cwd=tmp_path) as url:
        async with anyio.create_task_group() as tasks:

            async def one(number: int) -> None:
                async with plain_client(url, top / "a") as client:
                    await ask(client, number)

            for number in range(64):
                tasks.start_soon(one, number)
    assert wrong == []


async def test_no_call_of_thousands_reaches_a_child_of_anothers_roots(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f", "b/f")
    config = config_file(tmp_path, {"many": {**MANY, "concurrency": 32}})
    with http_hub("--config", config, cwd=tmp_path) as url:
        async with (
            plain_client(url, top / "a") as alice,
            plain_client(url, top / "b") as bob,
            anyio.create_task_group() as tasks,
        ):

            async def caller(client: PlainClient, own: Path, number: int) -> None:
                for turn in range(32):
                    text, path = f"{own.name}{number}/{turn}", str(own / "f")
                    assert await client.call(number, "mine", text=text, path=path) == text

            for number in range(32):
                tasks.start_soon(caller, alice, top / "a", number)
                tasks.start_soon(caller, bob, top / "b", number)


async def test_a_burst_of_changes_starts_one_replacement(tmp_path: Path) -> None:
    top = plant(tmp_path, *(f"r{number}/f" for number in range(10)))
    log = tmp_path / "starts"
    starts = f"import runpy, sys; open({str(log)!r}, 'a').write('x'); sys.argv = sys.argv[1:]; "
    starts += "runpy.run_path(sys.argv[0], run_name='__main__')"
    server = {"command": sys.executable, "args": ["-c", starts, *MANY["args"]]}
    config = config_file(tmp_path, {"many": server}, roots={"debounce": 60})  # a call ends it
    with http_hub("--config", config, cwd=tmp_path) as url:
        shared = SharedFolders([top / "r0"])
        async with connected(url, shared) as client:
            assert await call(client, "mine", text="0", path=str(top / "r0/f")) == "0"
            for number in range(1, 10):
                shared.folders = [top / f"r{number}"]
                await roots_changed(client)
                await client.session.send_request(PingRequest(), EmptyResult)  # time to ask
            assert await call(client, "mine", text="9", path=str(top / "r9/f")) == "9"
        assert log.read_text() == "xx"
