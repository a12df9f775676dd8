"""What a call costs an attached client: `python -m bench.attached [ROUNDS]`.

The same client before the same server: over stdio to `roots-hub run`, and to a shared hub by
`roots-hub attach`, which hands its stdin and stdout over. The two take turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from functools import partial

from bench.cases import folder_in, reading
from bench.figures import Table, Target, machine
from bench.piped import Piped
from bench.programs import CHILD, HUB, exit_on_sigterm, hub_attached, hub_config, hub_on_stdio

ROUNDS = 15
TIMES = 1000
"""Calls in a round."""
OWN, SHARED = "run --stdio", "attach"


def main() -> None:
    """Print the table."""
    exit_on_sigterm()
    with ExitStack() as stack:
        root = folder_in(stack)
        root.parent.chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(root.parent)
        config = hub_config(root.parent, {"files": CHILD})
        stop = [HUB, "stop", "--config", str(config)]
        stack.callback(subprocess.run, stop, stdout=subprocess.DEVNULL, check=True)
        table = Table("a call with a path, one by one", "µs", OWN, digits=1)
        table.targets[SHARED] = Target(1.05)
        clients: dict[str, Piped] = {}
        for name, argv in ((OWN, hub_on_stdio(config)), (SHARED, hub_attached(config))):
            clients[name] = Piped(argv, folder=root.parent, roots=[root])
            stack.callback(clients[name].end)
            clients[name].begin()
            clients[name].request("tools/list", {})
            clients[name].one_by_one(reading(root), TIMES)
        for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS):
            # Whoever comes first may find colder caches.
            for name in (OWN, SHARED) if number % 2 else (SHARED, OWN):
                table.measure(name, partial(_median, clients[name], reading(root)))
        print("\n".join([machine(), *table.lines()]))


def _median(client: Piped, params: dict[str, object]) -> float:
    return statistics.median(client.one_by_one(params, TIMES)) * 1e6


if __name__ == "__main__":
    main()
