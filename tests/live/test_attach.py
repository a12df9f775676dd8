"""Clients that attach: one hub serves them all, as `run --stdio` would serve each."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.kit.warm import ROOTS_HUB, WARM_HUB
from tests.live.attaching import INSTALLED, AttachedClient, attached, hubs, run, shared_hubs, until
from tests.live.programs import (
    RECORDER,
    SOON,
    Mode,
    call,
    config_file,
    connected,
    environment,
    outside,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")

RACES = int(os.environ.get("ATTACH_ROUNDS", "1"))
AT_ONCE = 10
ON = [False, True]


@pytest.fixture
def config(tmp_path: Path) -> Generator[str]:
    """Yield a config; a hub for it ends with the test."""
    recorder = {"command": RECORDER[0], "args": RECORDER[1:], "env": {"RECORD": str(tmp_path)}}
    made = config_file(tmp_path, {"recorder": recorder}, linger=60, names="always")
    yield made
    run("stop", "--config", made, cwd=tmp_path)


@pytest.mark.parametrize("on_sockets", ON, ids=["pipes", "sockets"])
def test_a_client_is_served_until_it_closes_stdin(
    config: str, tmp_path: Path, on_sockets: bool
) -> None:
    asked = ("--config", config)
    for _ in range(2):
        with attached(*asked, cwd=tmp_path, command=INSTALLED, on_sockets=on_sockets) as client:
            client.open()
            assert "recorder__pid" in client.tools()
            assert client.end() == 0
            assert client.stdout.read() == b""
            assert "attached" in client.errors()
    assert len(hubs(config, tmp_path)) == 1


def test_status_names_servers_that_are_down_once_with_the_reason(tmp_path: Path) -> None:
    servers = {
        "ends": {"command": sys.executable, "args": ["-c", "raise SystemExit(7)"]},
        "unset": {"command": "x", "env": {"A": "${NOT_SET_HERE}"}},
    }
    config = config_file(tmp_path, servers, linger=60, names="always")
    start = partial(attached, "--config", config, cwd=tmp_path)
    with start() as one, start() as other:
        for client in (one, other):
            client.open()
            client.tools()
        (hub,) = hubs(config, tmp_path)
        (left_out, ended) = sorted(hub["down"], key=lambda one: one["server"], reverse=True)
        assert left_out["server"] == "unset"
        assert "the variable NOT_SET_HERE is not set" in left_out["error"]
        assert ended["server"] == "ends"
        assert "7" in ended["error"]
        assert "  servers that are down: 2" in run("status", cwd=tmp_path).stdout
    run("stop", "--config", config, cwd=tmp_path)


def test_a_client_whose_ended_children_nobody_waits_for_is_served(
    config: str, tmp_path: Path
) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = (sys.executable, "-c", ignoring, sys.executable, "-m", "hub", "attach")
    with attached("--config", config, cwd=tmp_path, command=command) as client:
        client.open()
        assert client.end() == 0
        assert "no shared hub" not in client.errors()
    assert len(hubs(config, tmp_path)) == 1


@pytest.mark.parametrize("on_sockets", ON, ids=["pipes", "sockets"])
def test_whether_a_clients_own_ends_block_is_left_alone(
    config: str, tmp_path: Path, on_sockets: bool
) -> None:
    with attached("--config", config, cwd=tmp_path, on_sockets=on_sockets) as client:
        ends = [client.stdin.fileno(), client.stdout.fileno()]
        before = [fcntl.fcntl(end, fcntl.F_GETFL) for end in ends]
        client.open()
        client.tools()
        assert [fcntl.fcntl(end, fcntl.F_GETFL) for end in ends] == before
        assert client.end() == 0
        assert [fcntl.fcntl(client.stdout, fcntl.F_GETFL)] == before[1:]


def test_clients_that_come_at_once_find_one_hub(config: str, tmp_path: Path) -> None:
    for _ in range(RACES):
        with ExitStack() as stack, ThreadPoolExecutor(AT_ONCE) as pool:
            starts = [attached("--config", config, cwd=tmp_path) for _ in range(AT_ONCE)]
            clients: list[AttachedClient] = list(pool.map(stack.enter_context, starts))
            list(pool.map(AttachedClient.open, clients))
            assert len(shared_hubs(config)) == 1
            (hub,) = hubs(config, tmp_path)
            assert [client.end() for client in clients] == [0] * AT_ONCE
            told = [client.errors() for client in clients]
            assert [one for one in told if "no shared hub" in one] == []
            assert len(hub["clients"]) == AT_ONCE
        assert run("stop", "--config", config, cwd=tmp_path).returncode == 0
        until(lambda: not shared_hubs(config))


@pytest.mark.parametrize("on_sockets", ON, ids=["pipes", "sockets"])
def test_a_client_that_does_not_read_holds_nobody_up(
    config: str, tmp_path: Path, on_sockets: bool
) -> None:
    big = tmp_path / "big.txt"
    big.write_text("x" * 1_000_000)
    arguments = ("--config", config, "--root", str(tmp_path))
    with (
        attached(*arguments, cwd=tmp_path, on_sockets=on_sockets) as deaf,
        attached(*arguments, cwd=tmp_path) as other,
    ):
        for client in (deaf, other):
            client.open()
            client.tools()
        # Its end of the pair may block again at any time, by whoever else has it open.
        for _ in range(20):
            deaf.begin("tools/call", name="recorder__read_file", arguments={"path": str(big)})
        for _ in range(20):
            assert other.call("recorder__pid").isdecimal()
        assert other.end() == 0


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_python_sdks_clients_attach(config: str, tree: Path, mode: Mode) -> None:
    project, secret = tree / "project", tree / "private/secret.txt"
    command = [WARM_HUB, "attach", "--config", config]
    async with connected(command, [project], mode=mode, cwd=tree) as client:
        inside = project / "a.txt"
        assert await call(client, "recorder__read_file", path=str(inside)) == "project/a.txt"
        said = await call(client, "recorder__read_file", path=str(secret))
        assert said == outside(secret, project)
    assert len(hubs(config, tree)) == 1


def test_a_wrapped_command_has_a_hub_of_its_own(tmp_path: Path) -> None:
    command = (ROOTS_HUB, "wrap", "--shared", "--", *RECORDER)
    pids: set[str] = set()
    for _ in range(2):
        with attached(cwd=tmp_path, command=command, env={"RECORD": str(tmp_path)}) as client:
            client.open()
            assert "pid" in client.tools()
            pids.add(client.call("pid"))
            assert client.end() == 0
            assert "attached" in client.errors()
    running = json.loads(run("status", "--json", cwd=tmp_path).stdout)["hubs"]
    (hub,) = [one for one in running if shlex.join(RECORDER) in one["serves"]]
    os.kill(hub["pid"], signal.SIGTERM)


# What is not attached


def alone(arguments: Iterable[str], cwd: Path) -> str:
    """Have a client that is served by the process itself; return the log."""
    with attached(*arguments, cwd=cwd) as client:
        client.open()
        assert client.tools()
        assert client.end() == 0
        return client.errors()


def test_a_client_is_served_alone_where_it_is_asked_for_or_no_config_file_is_named(
    config: str, tmp_path: Path
) -> None:
    asked = alone(["--config", config, "--alone"], tmp_path)
    assert "this process serves the client alone" in asked
    assert "why=--alone" in asked
    assert "no config file is named" in alone(["--root", str(tmp_path)], tmp_path)
    assert hubs(config, tmp_path) == []


def test_a_file_is_not_handed_over(config: str, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    info = '{"name":"script","version":"1"}'
    script.write_text(
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        f'"capabilities":{{}},"clientInfo":{info}}}}}\n'
    )
    with script.open() as stdin:
        done = subprocess.run(  # noqa: S603 - ours
            [ROOTS_HUB, "attach", "--config", config],
            cwd=tmp_path,
            env=environment(),
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=SOON,
            check=False,
        )
    assert '"protocolVersion":"2025-11-25"' in done.stdout
    assert "stdin is no pipe" in done.stderr
    assert done.returncode == 0
    assert hubs(config, tmp_path) == []


@pytest.mark.parametrize("spoil", ["mode", "link"])
def test_a_directory_that_others_may_use_is_not_used(
    config: str, tmp_path: Path, spoil: str
) -> None:
    base = tmp_path / "base"
    base.mkdir(mode=0o700)
    place = base / "roots-hub"
    if spoil == "mode":
        place.mkdir()
        place.chmod(0o755)
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    why = "others may use it (mode 0755, not 0700)" if spoil == "mode" else "it is a link"
    with attached("--config", config, cwd=tmp_path, env={"XDG_RUNTIME_DIR": str(base)}) as client:
        client.open()
        assert client.end() == 0
        assert why in client.errors()
    assert not list((tmp_path / "elsewhere").glob("*")) if spoil == "link" else True


def test_a_config_that_is_wrong_is_told_as_by_run(tmp_path: Path) -> None:
    config = config_file(tmp_path, {"recorder": {"comand": "x"}})
    with attached("--config", config, cwd=tmp_path) as client:
        assert client.process.wait(SOON) == 3
        said = client.errors()
    assert "comand" in said
    assert "Traceback" not in said
