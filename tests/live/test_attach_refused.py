"""Who must not attach, and what a hub does when it cannot take a client."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from hub.attach.frames import REFUSED, FrameReader, hello, parsed
from tests.conftest import PROJECT
from tests.kit.confinement import needs_landlock
from tests.kit.warm import ROOTS_HUB
from tests.live.attaching import RUNNING_CHILD, as_root, attached, hubs, run, shared_hubs, until
from tests.live.programs import SOON, config_file

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are told by /proc")

ATTACHING = """
import os, subprocess
if {orphaned} and os.fork():
    os.wait()
    raise SystemExit
if {orphaned}:
    os.setsid()
    if os.fork():
        os._exit(0)
ran = subprocess.run({argv}, input="", capture_output=True, text=True)
with open({told!r} + ".part", "w") as file:
    print(ran.returncode, ran.stdout, ran.stderr, sep="\\n", file=file)
os.rename({told!r} + ".part", {told!r})
"""
"""Attaches as a server's process, or as an orphan of one; writes down what came of it."""
LOOKING = """
import glob, os, socket
def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as exc:
        return repr(exc)
def greeted(place):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(9)
        s.connect(place)
        return s.recv(9999)
print(tried(os.listdir, {place!r}))
for name in {names}:
    print(tried(open, {place!r} + "/" + name + ".key"))
    print("greeted:", tried(greeted, {place!r} + "/" + name + ".sock"))
"""
"""Looks for the secret, and connects to the hub."""


@pytest.fixture
def config(tmp_path: Path) -> Generator[str]:
    made = config_file(tmp_path, {"runner": RUNNING_CHILD}, linger=60, names="always")
    yield made
    run("stop", "--config", made, cwd=tmp_path)


def log_of(config: str, cwd: Path) -> str:
    (hub,) = hubs(config, cwd)
    return Path(hub["log"]).read_text()


@pytest.mark.parametrize("orphaned", [False, True], ids=["child", "orphan"])
def test_a_server_of_the_hub_does_not_attach(config: str, tmp_path: Path, orphaned: bool) -> None:
    told = tmp_path / "told.txt"
    argv = [ROOTS_HUB, "attach", "--config", config]
    script = tmp_path / "attaching.py"
    script.write_text(ATTACHING.format(orphaned=orphaned, argv=argv, told=str(told)))
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        client.tools()
        client.call("runner__run", argv=[sys.executable, str(script)])
        until(told.exists)
        # It is not served at all: alone it would start all servers again, and these would attach.
        assert told.read_text().startswith("1\n")
        assert "was started by one of this hub's own servers" in told.read_text()
        assert len(hubs(config, tmp_path)[0]["clients"]) == 1
        assert client.end() == 0
    assert "was started by one of this hub's own servers" in log_of(config, tmp_path)


@needs_landlock
def test_a_confined_server_reads_no_secret_and_does_not_attach(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    prefixes = [sys.prefix, sys.base_prefix, str(PROJECT)]
    server = {**RUNNING_CHILD, "confine": {"mode": "require", "read": prefixes}}
    config = config_file(tmp_path, {"runner": server}, linger=60, names="always")
    place = Path(os.environ["XDG_RUNTIME_DIR"], "roots-hub")
    try:
        with attached(*("--config", config, "--root", str(project)), cwd=project) as client:
            client.open()
            client.tools()
            (hub,) = hubs(config, tmp_path)
            name = Path(hub["log"]).stem.removeprefix("hub-")
            assert (place / f"{name}.key").stat().st_mode & 0o777 == 0o600
            script = project / "looking.py"
            script.write_text(LOOKING.format(place=str(place), names=[name]))
            said = client.call("runner__run", argv=["python3", str(script)])
            assert said.count("PermissionError") >= 2, said
            assert "greeted:" in said
            assert "greeted: b'j" not in said
            assert client.end() == 0
    finally:
        run("stop", "--config", config, cwd=tmp_path)


def answers(config: str, cwd: Path, content: bytes) -> list[tuple[bytes, bytes]]:
    """Return what a hub answers to these bytes until it hangs up."""
    (hub,) = hubs(config, cwd)
    name = Path(hub["log"]).stem.removeprefix("hub-")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SOON)
        folder = os.open(Path(os.environ["XDG_RUNTIME_DIR"], "roots-hub"), os.O_RDONLY)
        connection.connect(f"/proc/self/fd/{folder}/{name}.sock")
        os.close(folder)
        connection.sendall(content)
        frames, found = FrameReader(), list[tuple[bytes, bytes]]()
        while True:
            try:
                received = connection.recv(65536)
            except ConnectionError:
                return found
            if not received:
                return found
            found += frames.feed(received)


def test_only_who_knows_the_secret_and_speaks_the_format_is_answered(
    config: str, tmp_path: Path
) -> None:
    secret_file = Path(os.environ["XDG_RUNTIME_DIR"], "roots-hub")
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        (hub,) = hubs(config, tmp_path)
        name = Path(hub["log"]).stem.removeprefix("hub-")
        secret = (secret_file / f"{name}.key").read_text()
        version = hub["version"]
        assert answers(config, tmp_path, hello("status", secret, version))
        for wrong in (
            hello("status", "0" * 64, version),
            hello("attach", "", version),
            hello("attach", secret, version),  # without stdin and stdout
            b"\0\0\0\x02[]",
            b"\xff\xff\xff\xff" + b"x" * 100,
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            assert answers(config, tmp_path, wrong) == [], wrong
        for unfit in (hello("attach", secret, "0.0.1"), hello("dance", secret, version)):
            ((kind, content),) = answers(config, tmp_path, unfit)
            assert kind == REFUSED
            assert parsed(content)["alone"] is True
        assert client.tools()
        assert client.end() == 0
    log = log_of(config, tmp_path)
    assert "it does not know the secret" in log
    assert "stdin and stdout did not come along" in log
    assert "Traceback" not in log
    assert secret not in log


@as_root
def test_a_hub_without_free_descriptors_turns_clients_away_and_goes_on(
    config: str, tmp_path: Path
) -> None:
    from resource import RLIMIT_NOFILE, prlimit  # noqa: PLC0415 - not everywhere

    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        client.tools()
        pid = hubs(config, tmp_path)[0]["pid"]
        before = prlimit(pid, RLIMIT_NOFILE)
        used = max(int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir()) + 1
        for free in range(6):
            prlimit(pid, RLIMIT_NOFILE, (used + free, before[1]))
            with attached("--config", config, cwd=tmp_path) as other:
                other.open()
                assert other.tools()
                assert other.end() == 0
                said = other.errors()
                if not free:
                    assert "this process serves the client alone" in said
        assert client.call("runner__run", argv=["echo", "here"]).startswith("0\nhere")
        prlimit(pid, RLIMIT_NOFILE, before)
        with attached("--config", config, cwd=tmp_path) as other:
            other.open()
            assert other.end() == 0
            assert "alone" not in other.errors()
        assert json.dumps(hubs(config, tmp_path))
        assert client.end() == 0


def test_a_hub_that_hangs_is_not_waited_for(config: str, tmp_path: Path) -> None:
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        (hub,) = shared_hubs(config)
        os.kill(hub, signal.SIGSTOP)
        try:
            with attached("--config", config, cwd=tmp_path) as other:
                # All of it waits in the pipe, and none of it is lost.
                other.open()
                assert other.tools()
                assert other.end() == 0
                assert "the hub does not answer: timed out" in other.errors()
        finally:
            os.kill(hub, signal.SIGCONT)
        assert client.tools()
        assert client.end() == 0
