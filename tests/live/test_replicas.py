"""`make replicas`: two hubs behind a real nginx, with the config of docs/scale.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.live.programs import environment
from tests.replicas import nginx_program, rows


def test_every_call_succeeds_behind_the_documented_nginx(tmp_path: Path) -> None:
    nginx = nginx_program()
    if nginx is None:
        pytest.skip("there is no nginx")
    assert [(row.made, row.succeeded) for row in rows(tmp_path, nginx)] == [
        (100, 100),
        (20, 20),
        (100, 100),
    ]


def test_without_nginx_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.replicas"],
        cwd=PROJECT,
        env=environment(NGINX="no-such-program", PYTHONPATH=os.environ.get("PYTHONPATH", "")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "apt-get install nginx" in done.stderr
