"""What processes of servers find in their environment, as the kernel has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hub.confinement import landlock
from hub.system import this_process as privacy
from tests.kit.warm import ROOTS_HUB, WARM_HUB, ran
from tests.live.programs import config_file, environment

SECRETS = {
    "OTHERS_TOKEN": "t-0k3n",
    "DATABASE_URL": "postgres://u:p4ss@h/db",
    "HUB_TOKEN": "hubs-0wn",
    "PLAIN": "plain-value",
}
NOBODY = 65534


def spied(tmp_path: Path, **server: Any) -> bytes:
    """Return the environment of a child that a hub launched, from /proc."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    found = root / "found"
    spy = f"open({str(found)!r}, 'wb').write(open('/proc/self/environ', 'rb').read())"
    config = config_file(
        tmp_path, {"s": {"command": sys.executable, "args": ["-c", spy], **server}}
    )
    command = [WARM_HUB, "check", "--connect", "--config", config, "--root", str(root)]
    ran(command, env=environment(**SECRETS), timeout=60)  # its child answers nothing
    return found.read_bytes()


confined = pytest.param(
    {"confine": "require"},
    marks=pytest.mark.skipif(landlock.abi() == 0, reason="needs a kernel with Landlock"),
)


@pytest.mark.parametrize("how", [{}, confined])
def test_a_server_gets_no_secret_that_is_not_its_own(tmp_path: Path, how: dict[str, Any]) -> None:
    found = spied(tmp_path, env={"MINE": "${OTHERS_TOKEN}"}, **how)
    assert b"\0OTHERS_TOKEN=" not in b"\0" + found
    assert b"p4ss" not in found
    assert b"hubs-0wn" not in found
    assert b"PLAIN=plain-value\0" in found
    assert b"MINE=t-0k3n\0" in found


@pytest.mark.parametrize("how", [{}, confined])
def test_what_a_server_inherits_can_be_chosen(tmp_path: Path, how: dict[str, Any]) -> None:
    minimal = spied(tmp_path, environment="minimal", **how)
    assert b"PLAIN=" not in minimal
    assert b"PATH=" in minimal
    chosen = spied(tmp_path, environment=["OTHERS_*"], **how)
    assert b"OTHERS_TOKEN=t-0k3n\0" in chosen
    assert b"PLAIN=" not in chosen
    everything = spied(tmp_path, environment="all", **how)
    assert b"p4ss" in everything
    assert b"hubs-0wn" not in everything


def test_wrap_hands_on_all_but_the_hubs_own(tmp_path: Path) -> None:
    found = tmp_path / "found"
    spy = f"open({str(found)!r}, 'wb').write(open('/proc/self/environ', 'rb').read())"
    subprocess.run(  # noqa: S603 - the hub, whose child answers nothing
        [ROOTS_HUB, "wrap", "--", sys.executable, "-c", spy],
        input=b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}\n'
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n',
        env=environment(**SECRETS),
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"OTHERS_TOKEN=t-0k3n\0" in found.read_bytes()
    assert b"hubs-0wn" not in found.read_bytes()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("hidden", [True, False])
def test_a_child_cannot_read_the_hubs_own_environment(*, hidden: bool) -> None:
    script = f"""{Path(privacy.__file__).read_text()}
import subprocess
if {hidden}:
    assert hide_from_others()
print(subprocess.run(["sh", "-c", "cat /proc/$PPID/environ"], env={{"PATH": "/bin:/usr/bin"}},
                     capture_output=True).stdout)
"""
    # Root may read everything: then it is tried as somebody else.
    user = NOBODY if os.geteuid() == 0 else None
    python = "/usr/bin/python3" if user else sys.executable
    if not Path(python).exists():
        pytest.skip("needs a Python that all users may run, at /usr/bin/python3")
    said = subprocess.run(  # noqa: S603 - our own script
        [python, "-I", "-S", "-c", script],
        env={"KEPT_TOKEN": "s3cret", "PATH": "/bin:/usr/bin"},
        user=user,
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout
    assert (b"s3cret" in said) is not hidden
