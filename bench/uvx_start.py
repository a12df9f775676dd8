"""What `uvx` adds to the start of the installed hub: `make dist`, then this.

`python -m bench.uvx_start [ROUNDS]` starts the wheel of dist/ in turn as an installed command and
by `uvx --from`, both warm, and prints the time from the start to the answer to `initialize`.

uvx resolves at each start. It asks the index again for what is older than the index allows (PyPI:
ten minutes); how long that takes depends on the index alone. So the limit holds for `--offline`,
which takes what is there, as uvx does within these ten minutes. Both start the same Python: uvx is
told which, for a search that ends at a script of pyenv takes 150 ms.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).parent.parent
TOOLS = PROJECT / ".dist/bin"
INSTALLED, WARM = "installed", "uvx"
ROUNDS = 15
LIMIT = 150.0
"""Milliseconds that uvx may add."""
CHILD = [sys.executable, str(PROJECT / "bench/child.py")]
ASKED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def started(command: Sequence[str]) -> float:
    """Return the milliseconds from the start of a program to its answer to `initialize`."""
    begin = time.perf_counter()
    with subprocess.Popen(
        [*command, "wrap", "--", *CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        print(json.dumps(ASKED), file=program.stdin, flush=True)
        answer = json.loads(program.stdout.readline())
        spent = time.perf_counter() - begin
        assert answer["id"] == 1
        assert "result" in answer
        program.stdin.close()
    return spent * 1000


def main(words: Sequence[str]) -> int:
    """Print both medians and their difference; 1 if that is more than it may be."""
    wheel = next((PROJECT / "dist").glob("*.whl"), None)
    if wheel is None:
        print("there is no wheel in dist/: make dist", file=sys.stderr)
        return 2
    # Users' programs have their byte code; the first turn writes it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "installed"
        uv = str(TOOLS / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, place], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(place)]
        subprocess.run([*install, str(wheel)], check=True)
        uvx, hub = (
            str(TOOLS / "uvx"),
            ["--python", sys.executable, "--from", str(wheel), "roots-hub"],
        )
        ways = {
            INSTALLED: [str(place / "bin/roots-hub")],
            WARM: [uvx, "--offline", *hub],
            "uvx that may ask the index": [uvx, *hub],
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(1 + (int(words[0]) if words else ROUNDS)):
            for name, command in ways.items():
                spent = started(command)
                if turn:  # the first writes the caches
                    times[name].append(spent)
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, median in medians.items():
        more = median - medians[INSTALLED]
        print(f"{name:27}{median:6.0f} ms {more:+6.0f} (from {min(times[name]):.0f})")
    added = medians[WARM] - medians[INSTALLED]
    print(f"uvx adds {added:.0f} ms to the start; it may add {LIMIT:.0f}")
    return int(added > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
