"""The hub, with a note of every function that runs: `traced_hub.py ASKED TOLD ARGUMENTS...`.

For each line that is read from the pipe ASKED the functions since the last one are written to the
pipe TOLD, a line each, and a line `.` at their end.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

_called: set[tuple[str, str, int]] = set()


def _note(frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        code = frame.f_code
        _called.add((code.co_filename, code.co_qualname, code.co_firstlineno))


def _tell() -> None:
    asked, told = map(Path, sys.argv[1:3])
    with asked.open(encoding="utf-8") as questions, told.open("w", encoding="utf-8") as file:
        for _ in questions:
            called = sorted(_called)
            _called.clear()
            file.writelines(f"{path}\t{name}\t{line}\n" for path, name, line in called)
            file.write(".\n")
            file.flush()


def main() -> None:
    """Run the hub."""
    from hub.cli.main import main as hub  # noqa: PLC0415 - loading it is no part of a call

    threading.Thread(target=_tell, daemon=True).start()
    threading.setprofile(_note)
    sys.setprofile(_note)
    raise SystemExit(hub(sys.argv[3:]))


if __name__ == "__main__":
    main()
