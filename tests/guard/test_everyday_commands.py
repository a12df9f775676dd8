"""Commands of every day pass; one beside them that opens a file outside is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.guard.arguments import PathCandidate
from hub.guard.containment import OUTSIDE
from hub.guard.judge import Judge
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Policy
from tests.kit.trees import plant
from tests.kit.worlds import context, share

EMPTY = [
    "echo ''",
    'echo "" > a.txt',
    "sed -i '' -e 's/a/b/' a.txt",
    "ssh-keygen -t ed25519 -f key -N ''",
    "curl -X POST -d '' http://localhost:8080/api/x",
    '[ -z "" ] && echo empty',
    "grep -c '' src/a.py",
]
STARTED = [
    "cat > run.sh <<'EOF'\n#!/bin/bash\nnpm start\nEOF",
    "cat > run.sh <<'EOF'\n#!/usr/bin/env bash\nnpm start\nEOF",
    "grep -rlF '#!/bin/sh' src",
    "grep -rl '#!/usr/bin/env python' .",
    "echo x | tee /dev/stderr",
    "echo x > /dev/stderr",
]
OUT = [
    "cat '' ../private/x",
    "cat ''../private/x",
    "cat '#!/etc/passwd'",
    "cat <<'EOF'\n#!../private/x\nEOF",
    "cat /bin/sh",
    "cat x /dev/sda",
]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(
        tmp_path,
        "project/a.txt",
        "project/src/a.py",
        "project/leak => ../private/x",
        "private/x",
    )


def objection(top: Path, command: str) -> str | None:
    world = context(share(top / "project"), top / "project", env={"HOME": f"{top}/home"})
    judge = Judge(world, Policy(), needs_write=True)
    return judge.objection(PathCandidate("/command", "command", Kind.COMMAND, command, ""))


@pytest.mark.parametrize("command", [*EMPTY, *STARTED])
def test_a_command_of_every_day_is_let_through(top: Path, command: str) -> None:
    assert objection(top, command) is None


@pytest.mark.parametrize("command", OUT)
def test_a_command_like_it_that_leads_outside_is_refused(top: Path, command: str) -> None:
    assert objection(top, command) == OUTSIDE
