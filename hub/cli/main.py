"""Entry point of the `roots-hub` command; `command_line` has all that it does itself.

A client may start `roots-hub attach` for each of its sessions. That needs next to nothing, so it is
tried first, and what is slow to load is imported later, or not at all.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    open_closed_streams()
    if not os.environ.get("HOME"):
        os.environ.pop("HOME", None)  # an empty one would be `/`; without, the system tells it
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # loading takes long enough for it
        return 130


def open_closed_streams() -> None:
    """Open the null device for those of stdin, stdout and stderr that are closed.

    Else the next files and sockets get their numbers, and are taken for them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _run(given: list[str]) -> int:
    why_alone = None
    if given[:1] in (["attach"], ["wrap"]):
        from hub.cli.hubs.attach import attached  # noqa: PLC0415 - seldom needed

        outcome = attached(given)
        if isinstance(outcome, int):
            return outcome
        why_alone = outcome
    import signal  # noqa: PLC0415 - `attach` needs it not

    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # for the same reason as in `lean`
    from hub.cli.command_line import run_command  # noqa: PLC0415 - slow to load

    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    return run_command(given, why_alone)


if __name__ == "__main__":
    sys.exit(main())
