"""What `roots-hub check --confine` tells of this machine: what it can do, and a trial of it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from hub.core.confinement import missing
from hub.runtime import landlock
from hub.runtime.confined import this_kernel
from hub.runtime.system_places import SYSTEM

_TRIAL: Final = "import sys\nfor name in sys.argv[1:]: print(open(name).read(), flush=True)"
_PATIENCE: Final = 20.0
"""Seconds that the trial may take."""


def confinement_report() -> tuple[list[str], bool]:
    """Return what there is to say, line by line, and whether this machine can confine.

    A small program is run confined, with one of two files granted: it must read that, and must
    fail at the other.
    """
    kernel = this_kernel()
    if kernel.abi == 0:
        return [f"This machine cannot confine servers: {kernel.why_not}."], False
    lines = [f"Landlock ABI {kernel.abi}: servers can be confined."]
    lines += [f"  with this kernel: {text}" for text in missing(kernel.abi)]
    trouble = _tried()
    if trouble is not None:
        return [*lines, f"A trial FAILED: {trouble}"], False
    lines.append("Tried: a confined program read the file it was granted, and not the one beside.")
    return lines, True


def _tried() -> str | None:
    with tempfile.TemporaryDirectory(prefix="roots-hub-") as folder:
        inside, outside = Path(folder, "inside"), Path(folder, "outside")
        inside.write_text("granted")
        outside.write_text("secret")
        code = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
        places = [*SYSTEM, "/etc/ld.so.cache", *code, str(inside)]
        grants = Path(folder, "grants")
        grants.write_bytes(landlock.encode([("r", place, None) for place in places]))
        python = [sys.executable, "-I", "-S", "-B"]
        launcher = [*python, landlock.__file__, str(grants), sys.executable]
        try:
            tried = subprocess.run(  # noqa: S603 - our own program
                [*launcher, *python, "-c", _TRIAL, str(inside), str(outside)],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            return str(exc)
    if "secret" in tried.stdout:
        return "the file beside was read, too"
    if "granted" not in tried.stdout or "PermissionError" not in tried.stderr:
        return (tried.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return None
