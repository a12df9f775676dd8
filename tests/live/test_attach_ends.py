"""How attached sessions and shared hubs end: by whoever ends first, with nothing left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.live.attaching import INSTALLED, as_root, attached, hubs, run, shared_hubs, until
from tests.live.programs import MARK, RECORDER, SOON, alive, config_file

# ruff: noqa: T201 - how long each round took is what a run with many rounds is for
pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are told by /proc")

ROUNDS = int(os.environ.get("ATTACH_ROUNDS", "1"))
EX_TEMPFAIL = 75
ON = [False, True]


def made_config(directory: Path, **keys: object) -> str:
    env = {"RECORD": str(directory), MARK: directory.name}
    recorder = {"command": RECORDER[0], "args": RECORDER[1:], "env": env}
    return config_file(directory, {"recorder": recorder}, names="always", **keys)


@pytest.fixture
def config(tmp_path: Path) -> Generator[str]:
    """Yield a config whose server can be told by the name of the directory."""
    made = made_config(tmp_path, linger=60)
    yield made
    run("stop", "--config", made, cwd=tmp_path)


@pytest.mark.parametrize("on_sockets", ON, ids=["pipes", "sockets"])
def test_a_killed_hub_leaves_nothing_and_the_next_client_finds_another(
    config: str, tmp_path: Path, on_sockets: bool
) -> None:
    before = 0.0
    for number in range(ROUNDS):
        with attached("--config", config, cwd=tmp_path, on_sockets=on_sockets) as client:
            client.open()
            if number:
                print(f"round {number}: served {time.monotonic() - before:.3f} s after the kill")
            assert client.call("recorder__pid").isdecimal()
            (hub,) = shared_hubs(config)
            os.kill(hub, signal.SIGKILL)
            before = time.monotonic()
            assert client.stdout.read() == b""
            assert client.process.wait(SOON) == EX_TEMPFAIL
            assert "the hub has ended unexpectedly" in client.errors()
    until(lambda: not alive(tmp_path.name))
    assert shared_hubs(config) == []


@pytest.mark.parametrize("on_sockets", ON, ids=["pipes", "sockets"])
def test_a_killed_attached_process_ends_its_session_alone(
    config: str, tmp_path: Path, on_sockets: bool
) -> None:
    with attached("--config", config, cwd=tmp_path) as other:
        other.open()
        for number in range(ROUNDS):
            with attached("--config", config, cwd=tmp_path, on_sockets=on_sockets) as client:
                client.open()
                assert client.call("recorder__pid").isdecimal()
                client.process.kill()
                before = time.monotonic()
                assert client.stdout.read() == b""
                print(f"round {number}: ended {time.monotonic() - before:.3f} s after the kill")
            until(lambda: len(hubs(config, tmp_path)[0]["clients"]) == 1)
            assert other.call("recorder__pid").isdecimal()
        assert other.end() == 0


def test_a_hub_without_clients_ends_after_a_while_with_its_servers(tmp_path: Path) -> None:
    config = made_config(tmp_path, linger=0.5)
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        client.call("recorder__pid")
        assert client.end() == 0
    until(lambda: not shared_hubs(config))
    until(lambda: not alive(tmp_path.name))
    folder = Path(os.environ["XDG_RUNTIME_DIR"], "roots-hub")
    assert hubs(config, tmp_path) == []
    assert all(one.suffix != ".sock" or one.stem not in config for one in folder.iterdir())


def test_stop_ends_a_hub_and_its_clients_in_order(config: str, tmp_path: Path) -> None:
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        client.call("recorder__pid")
        (hub,) = shared_hubs(config)
        done = run("stop", "--config", config, cwd=tmp_path)
        assert done.stdout == f"stopped: {config} (process {hub})\n"
        assert not alive(tmp_path.name)
        assert client.stdout.read() == b""
        assert client.process.wait(SOON) == 0
    done = run("stop", "--config", config, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no hub is running for {config}" in done.stderr


def test_status_shows_hubs_and_their_clients(config: str, tmp_path: Path) -> None:
    assert run("status", "--config", config, cwd=tmp_path).stdout == "no hub is running\n"
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        shown = run("status", "--config", config, cwd=tmp_path).stdout
        assert shown.startswith(f"{config}\n  process {shared_hubs(config)[0]}, roots-hub ")
        assert "  clients: 1\n" in shown
        assert f"    process {client.process.pid} in {tmp_path}\n" in shown
        (hub,) = hubs(config, tmp_path)
        assert hub["serves"] == config
        assert hub["memory"] > 0
        log = Path(hub["log"])
        assert log.stat().st_mode & 0o777 == 0o600
        assert "attached" in log.read_text()
        assert client.end() == 0


def test_reload_says_what_came_of_it(config: str, tmp_path: Path) -> None:
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        done = run("reload", "--config", config, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert client.end() == 0


def test_a_hub_of_another_version_goes_once_it_has_no_clients(config: str, tmp_path: Path) -> None:
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        (hub,) = hubs(config, tmp_path)
        folder = Path(os.environ["XDG_RUNTIME_DIR"], "roots-hub")
        name = Path(hub["log"]).stem.removeprefix("hub-")
        # It counts as one of another version by its name.
        for kind in ("sock", "key", "lock"):
            (folder / f"{name}.{kind}").rename(folder / f"{name.partition('-')[0]}-000000.{kind}")
        with attached("--config", config, cwd=tmp_path) as newer:
            newer.open()
            assert len(shared_hubs(config)) == 2
            assert client.call("recorder__pid").isdecimal()
            assert client.end() == 0
            until(lambda: len(shared_hubs(config)) == 1)
            assert newer.call("recorder__pid").isdecimal()
            assert newer.end() == 0
    # At its end the older one has removed the files by which `stop` would find the newer one.
    for one in shared_hubs(config):
        os.kill(one, signal.SIGTERM)
    until(lambda: not shared_hubs(config))


@as_root
def test_nothing_of_the_first_client_stays_with_the_hub(config: str, tmp_path: Path) -> None:
    own = {"TERM_SESSION_ID": "one", "SHLVL": "7", "A_TOKEN": "secret", "LANG": "C.UTF-8"}
    with attached("--config", config, cwd=tmp_path, env=own, command=INSTALLED) as client:
        client.open()
        (hub,) = shared_hubs(config)
        process = Path(f"/proc/{hub}")
        names = {
            one.partition(b"=")[0].decode()
            for one in (process / "environ").read_bytes().split(b"\0")
        }
        assert "LANG" in names
        assert names.isdisjoint({"TERM_SESSION_ID", "SHLVL", "A_TOKEN"})
        assert (process / "cwd").readlink() == Path("/")
        log = Path(hubs(config, tmp_path)[0]["log"])
        streams = [(process / f"fd/{number}").readlink() for number in range(3)]
        assert streams == [Path("/dev/null"), Path("/dev/null"), log]
        assert client.end() == 0
        assert client.stdout.read() == b""
