"""The commands of README.md and of the tutorial, run as they stand there, in an empty home."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.kit.pages import README, Block, PageTerminal, blocks, is_shown, shown_in
from tests.kit.warm import WARM

pytestmark = pytest.mark.live
NOT_RUN = ("uv tool", "pipx install", "python3 -m venv")
"""What installs the hub."""


@pytest.fixture
def terminal(tmp_path: Path) -> PageTerminal:
    programs, home = tmp_path / "bin", tmp_path / "home/user"
    programs.mkdir()
    home.mkdir(parents=True)
    (programs / "roots-hub").symlink_to(WARM.command())
    return PageTerminal(home, {"PATH": f"{programs}:{os.environ['PATH']}"})


def play(terminal: PageTerminal, block: Block) -> int:
    """Run the commands of a block, and return how many were."""
    run = [one for one in shown_in(block) if not one.command.startswith(NOT_RUN)]
    for shown in run:
        output = terminal.run(shown.command)
        assert is_shown(output, shown.output), f"$ {shown.command}\n{output}"
    return len(run)


def shells(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "console"]


def test_a_newcomer_gets_from_the_readme_to_an_allowed_and_a_refused_call(
    terminal: PageTerminal,
) -> None:
    # What needs clients' configs is run in test_setup.py.
    first, *others = [one for one in shells(README) if "roots-hub import" not in one.text]
    assert sum(play(terminal, block) for block in others) == 3
    assert play(terminal, first) == 3


def test_the_guards_page_explains_as_the_command_does(terminal: PageTerminal) -> None:
    terminal.run("mkdir project && cd project")
    assert sum(play(terminal, block) for block in shells(PROJECT / "docs/guard.md")) == 1


@pytest.mark.parametrize(("path", "is_refused"), [("/etc/passwd", True), ("notes.txt", False)])
def test_a_build_fails_only_where_the_call_of_the_page_would_be_allowed(
    terminal: PageTerminal, path: str, is_refused: bool
) -> None:
    config = 'version: 1\nservers: {files: {command: "true"}}\n'
    Path(terminal.directory, "hub.yaml").write_text(config)
    (block,) = [one for one in shells(PROJECT / "docs/serve-http.md") if "explain" in one.text]
    commands = "\n".join(one.command for one in shown_in(block)).replace("/etc/passwd", path)
    Path(terminal.directory, "build.sh").write_text(commands)
    ended = terminal.run("sh -e build.sh > build.log 2>&1; echo $?")
    assert ended == ("0" if is_refused else "1")


def test_the_tutorial_works_step_by_step(
    terminal: PageTerminal, npm_program: Callable[[str], str]
) -> None:
    # What npx would download is installed here.
    npx = terminal.home.parent.parent / "bin/npx"
    npx.write_text(f'#!/bin/sh\nshift 2\nexec "{npm_program("mcp-server-filesystem")}" "$@"\n')
    npx.chmod(0o755)
    ran = 0
    for block in blocks(PROJECT / "docs/tutorial.md"):
        if block.language == "yaml":
            Path(terminal.directory, "hub.yaml").write_text(block.text)
        elif block.language == "console":
            ran += play(terminal, block)
    assert ran == 16
