"""Hold the hub against the MCP conformance suite: `python -m tests.conformance [server|client]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.conformance import clients, servers

PARTS = {"server": servers.judge, "client": clients.judge}


def _show(word: str, line: str, wrong: list[str]) -> None:
    print(word, line, flush=True)  # noqa: T201 - what it is run for
    for one in wrong:
        print("   ", one[:600], flush=True)  # noqa: T201 - what it is run for


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        for part in sys.argv[1:] or PARTS:
            for attempt in PARTS[part](Path(directory)):
                line, wrong = attempt()
                if wrong:
                    # The suite allows some answers half a second, however busy the machine is.
                    _show("again", line, wrong)
                    line, wrong = attempt()
                _show("not ok" if wrong else "ok", line, wrong)
                failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
