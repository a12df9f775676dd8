"""Program that confines itself, then becomes a child's command (exec).

Run as `python -I -S -B launcher.py HELD COMMAND ARGV...`; the file HELD has the result of `encode`.
It must start fast and cannot use site packages.
"""

# ruff: noqa: PTH100, PTH120, PTH123 - pathlib takes longer to load than all of this
from __future__ import annotations

import ctypes
import marshal
import os
import sys

if __name__ == "__main__":
    # `-I` leaves out the program's directory. Appended last: it must not hide standard modules.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from hub.confinement.capabilities import CapabilitiesError, drop
from hub.confinement.landlock import LandlockError, confine
from hub.confinement.seccomp import SeccompError, filled_in, load

FAILED = 125
"""Exit code if confining failed: the command was not run."""
_PARENT_DEATH_SIGNAL, _SIGTERM = 1, 15


def encode(
    file_grants: bytes,
    refused: bytes = b"",
    above: tuple[int, int] | None = None,
    capabilities: tuple[int, ...] = (),
) -> bytes:
    """Return the content of the file HELD: grants, seccomp filter, capabilities to keep.

    `above` are two placeholder numbers in the filter. The launcher replaces them by the id of its
    parent process and by that process' group.
    """
    return marshal.dumps((file_grants, refused, above, capabilities))


def _hold(file: str) -> None:
    with open(file, "rb") as held:
        file_grants, refused, above, capabilities = marshal.loads(held.read())  # noqa: S302 - the hub's
    confine(file_grants)
    drop(capabilities)
    if above is not None:
        parent = os.getppid()
        refused = filled_in(refused, {above[0]: parent, above[1]: -os.getpgid(parent)})
    if refused:
        load(refused)


def main(arguments: list[str]) -> int:
    """Confine this process and execute the command. Returns only if that fails: an exit code.

    The kernel sends SIGTERM to the command when its parent process ends.
    """
    file, command, *argv = arguments
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, _SIGTERM)
    try:
        _hold(file)
    except (LandlockError, CapabilitiesError, SeccompError, OSError, ValueError) as exc:
        print(f"roots-hub cannot confine this process: {exc}", file=sys.stderr)  # noqa: T201 - its own program
        return FAILED
    try:
        os.execv(command, argv)  # noqa: S606 - what the operator configured
    except OSError as exc:
        print(f"roots-hub cannot run {command} confined: {exc.strerror}", file=sys.stderr)  # noqa: T201 - its own program
        return FAILED + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
