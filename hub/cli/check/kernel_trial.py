"""Whether this machine can confine servers: what its kernel offers, and a trial."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from hub.confinement import landlock, launcher
from hub.confinement.grants import missing
from hub.confinement.program_files import SYSTEM
from hub.confinement.seccomp_rules import PARENT, PARENTS_GROUP, compiled
from hub.system.machine import Kernel

_TRIAL: Final = """
import os, resource, sys
try:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
except PermissionError:
    print("filtered")
for name in sys.argv[1:]:
    print(open(name).read(), flush=True)
"""
_PATIENCE: Final = 20.0
"""Seconds that the trial may take."""

_Run: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"


def confinement_report(kernel: Kernel, run: _Run = subprocess.run) -> tuple[list[str], bool]:
    """Return a report as lines, and whether this machine with this kernel can confine servers.

    Runs a small confined program with one of two files granted: it must read that file, and fail
    to read the other.
    """
    if kernel.abi == 0:
        return [f"This machine cannot confine servers: {kernel.why_not}."], False
    lines = [f"Landlock ABI {kernel.abi}: servers can be confined."]
    lines += [f"  with this kernel: {text}" for text in missing(kernel.abi)]
    if kernel.no_seccomp:
        lines.append(f"System calls are NOT filtered: {kernel.no_seccomp}.")
    else:
        lines.append(
            "seccomp: system calls that affect other processes or the machine are refused."
        )
    trouble = _tried(run, filters=not kernel.no_seccomp)
    if trouble is not None:
        return [*lines, f"A trial FAILED: {trouble}"], False
    lines.append("Tried: a confined program could read the file it was granted, and no other file.")
    return lines, not kernel.no_seccomp


def _tried(run: _Run, *, filters: bool) -> str | None:
    with tempfile.TemporaryDirectory(prefix="roots-hub-") as folder:
        inside, outside = Path(folder, "inside"), Path(folder, "outside")
        inside.write_text("granted")
        outside.write_text("secret")
        code = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
        places = [*SYSTEM, "/etc/ld.so.cache", *code, str(inside)]
        grants = landlock.encode([("r", place, None) for place in places])
        machine = launcher.architecture() if filters else None
        refused = b"" if machine is None else compiled(machine)
        held = launcher.encode(grants, refused, (PARENT, PARENTS_GROUP))
        python = [sys.executable, "-I", "-S", "-B"]
        before = [*python, launcher.__file__, held, sys.executable]
        try:
            tried = run(
                [*before, *python, "-c", _TRIAL, str(inside), str(outside)],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            return str(exc)
    if "secret" in tried.stdout:
        return "a file that was not granted could be read"
    if "granted" not in tried.stdout or "PermissionError" not in tried.stderr:
        return (tried.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if filters and "filtered" not in tried.stdout:
        return "the limits of another process could be read"
    return None
