"""Which servers do not start, and what they said last."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from hub.cli.doctor.findings import Finding

_PATIENCE: Final = 300.0
"""Seconds for all servers together: `npx` and `uvx` may have to download them."""


def server_findings(config: Path) -> Iterator[Finding]:
    """Start each server of a config as `check --connect` does; yield those that do not answer."""
    command = [sys.executable, "-m", "hub", "--log-format", "json", "check"]
    try:
        ran = subprocess.run(  # noqa: S603 - our own program
            [*command, "--config", str(config), "--connect"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        what = f"{config}: not all servers answered within {_PATIENCE:.0f} seconds"
        yield Finding("servers", what, f"roots-hub check --connect --config {config}")
        return
    said = dict(_said(ran.stderr))
    for found in re.finditer(r"^(?P<name>.+?): (?P<what>server '.*)$", ran.stdout, re.MULTILINE):
        name = found["name"]
        what = (
            found["what"]
            .partition(";")[0]
            .replace(" (the hub's log has its last stderr lines)", "")
        )
        last = f"; it said: {said[name]}" if name in said else ""
        fix = (
            f"roots-hub plan --config {shlex.quote(str(config))} shows its command: run it by hand."
        )
        yield Finding("servers", f"{what}{last}", fix)


def _said(log: str) -> Iterator[tuple[str, str]]:
    for line in log.splitlines():
        try:
            entry: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "said" in entry:
            fields = cast("dict[str, Any]", entry)
            yield str(fields.get("server")), str(fields["said"])
