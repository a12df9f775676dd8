"""The command line of `attach`, and what the small program that reads it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from hub.cli.hubs.attach import NO_CONFIG, AttachOptions, attached, attached_to, wanted_by
from tests.conftest import PROJECT

HEAVY = {"argparse", "asyncio", "msgspec", "socket", "structlog", "subprocess", "typing", "yaml"}


def test_its_options_are_read_without_a_parser() -> None:
    wanted = wanted_by(["attach", "--config", "a.yaml", "--root=/x", "--root", "/y", "--alone"])
    assert wanted is not None
    assert (wanted.config, wanted.roots, wanted.is_alone) == ("a.yaml", ["/x", "/y"], True)
    wrapped = wanted_by(["wrap", "--shared", "--root", "/x", "--", "npx", "--root", "z"])
    assert wrapped is not None
    assert (wrapped.command, wrapped.roots) == (["npx", "--root", "z"], ["/x"])


@pytest.mark.parametrize(
    "given",
    [
        ["attach", "--help"],
        ["attach", "--config"],
        ["attach", "--log-level", "debug"],
        ["attach", "hub.yaml"],
        ["attach", "--shared"],
        ["attach", "--", "x"],
        ["wrap", "--", "npx"],
        ["wrap", "npx"],
        ["wrap", "--shared", "--"],
        ["wrap", "--shared", "npx"],
        ["wrap", "--shared", "--config", "x", "--", "npx"],
    ],
)
def test_anything_else_is_for_the_whole_parser(given: list[str]) -> None:
    assert wanted_by(given) is None
    assert attached(given) is None


def test_it_says_why_it_does_not_attach(platform: Callable[[str], None]) -> None:
    wanted = AttachOptions()
    wanted.is_alone = True
    assert attached_to(wanted) == "--alone"
    platform("win32")
    assert attached_to(AttachOptions()) == "there are no Unix sockets here"


def why_alone(config: str, **environment: str) -> str:
    """Return why a new process whose streams are pipes does not attach."""
    code = (
        "import sys; from hub.cli.hubs.attach import *; w = AttachOptions(); "
        "w.config = sys.argv[1]; print(attached_to(w), file=sys.stderr)"
    )
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", code, config],
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environment,
        },
        check=True,
    )
    return done.stderr.strip()


@pytest.mark.live
def test_no_hub_is_started_with_a_home_that_means_another_place_there() -> None:
    """A hub's directory is `/`: it would keep its files below `/~`."""
    assert why_alone("", HOME="~") == "HOME is no absolute path"
    assert why_alone("", HOME="") == NO_CONFIG


@pytest.mark.live
@pytest.mark.parametrize("config", ["", '{"mcpServers": {}}'])
def test_a_config_that_is_no_file_is_not_shared(config: str) -> None:
    assert why_alone(config) == NO_CONFIG


def test_what_stays_in_memory_of_each_session_is_little() -> None:
    code = (
        "import sys; before = set(sys.modules); import hub.cli.main, hub.cli.hubs.attach; "
        "import hub.attach.lifeline, hub.attach.start; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(  # noqa: S603 - this Python
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.append({str(PROJECT)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert HEAVY.isdisjoint(done.stdout.split())
