"""How far the hub is from a bare relay: `python -m bench.quick [ROUNDS]`, or `make bench-quick`.

Direct, bare relay and hub take turns, a little of each in every round, with the same child and the
same client. Each is measured twice: with all processes on one CPU, and with what is measured on a
CPU of its own.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.figures import Table, Target, machine
from bench.piped import Piped
from bench.placing import place, place_us
from bench.posting import Flood, Session
from bench.programs import (
    BARE,
    BATCHED,
    CHILD,
    HERE,
    YARD,
    Listening,
    free_port,
    hub_config,
    hub_on_http,
    hub_on_stdio,
)

SESSIONS = 64
AT_ONCE = 32
LARGE = 1 << 20
PLACES = {"one CPU": False, "a CPU of its own": True}
DIRECT, BARE_ROW = "direct", "bare relay"
"""Names of rows."""
HUB_PLAIN, HUB_PATH = "hub, no path", "hub, one path"
Params = dict[str, Any]
ECHO: Params = {"name": "echo", "arguments": {"text": "hello"}}
ANSWER: Params = {"name": "large", "arguments": {"text": "hello"}}
ARGUMENT: Params = {"name": "echo", "arguments": {"text": "x" * LARGE}}


def reading(folder: Path) -> Params:
    """Return a call with one absolute path, of a file in a folder of `folder`."""
    return {"name": "read_file", "arguments": {"path": str(folder / "src" / "main.py")}}


def folder_in(stack: ExitStack, name: str) -> Path:
    """Return a new folder with a file to name, for as long as `stack`."""
    top = stack.enter_context(tempfile.TemporaryDirectory())
    folder = Path(os.path.realpath(top), name)
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").touch()
    return folder


class Stdio:
    """The programs on stdio, and what is measured of them."""

    def __init__(self, stack: ExitStack) -> None:
        folder = folder_in(stack, "project")
        config = hub_config(folder.parent, {"child": CHILD})
        commands = {
            DIRECT: CHILD,
            BARE_ROW: BARE,
            "bare relay, batched": BATCHED,
            "hub": hub_on_stdio(config),
        }
        programs: dict[str, Piped] = {}
        for name, argv in commands.items():
            programs[name] = Piped(argv, folder=folder.parent, roots=[folder])
            stack.callback(programs[name].end)
            programs[name].begin()
            programs[name].request("tools/list", {})
            programs[name].request("tools/call", reading(folder))
        hub = programs.pop("hub")
        self._rows = {name: (program, ECHO) for name, program in programs.items()}
        self._rows |= {HUB_PLAIN: (hub, ECHO), HUB_PATH: (hub, reading(folder))}
        self._single = {
            apart: Table(f"stdio, one call, {place}", "µs, p50", BARE_ROW, digits=1)
            for place, apart in PLACES.items()
        }
        self._flight = {
            apart: Table(f"stdio, {AT_ONCE} in flight, {place}", "calls/s", BARE_ROW)
            for place, apart in PLACES.items()
        }
        self._large = {
            name: Table(f"stdio, 1 MiB {name}", "ms, p50", BARE_ROW, digits=2)
            for name in ("result", "argument")
        }
        for table in self._single.values():
            table.targets = {HUB_PLAIN: Target(1.5), HUB_PATH: Target(2)}
        for table in self._flight.values():
            table.targets = {HUB_PLAIN: Target(0.5, True), HUB_PATH: Target(0.25, True)}
        for table in self._large.values():
            table.targets = {HUB_PLAIN: Target(2)}

    def round(self) -> None:
        """Measure all rows once."""
        for apart in PLACES.values():
            for name, (program, params) in self._rows.items():
                place(program.process.pid, apart=apart)
                taken = program.one_by_one(params, 400)
                self._single[apart].add(name, statistics.median(taken) * 1e6)
                self._flight[apart].add(name, program.in_flight(params, AT_ONCE, 0.2))
        for name, (program, params) in self._rows.items():
            if params is ECHO:
                for kind, call in (("result", ANSWER), ("argument", ARGUMENT)):
                    taken = program.one_by_one(call, 9)
                    self._large[kind].add(name, statistics.median(taken) * 1e3)

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [*self._single.values(), *self._flight.values(), *self._large.values()]


class Http:
    """The programs on HTTP, and what is measured of them."""

    def __init__(self, stack: ExitStack) -> None:
        folder = folder_in(stack, "project")
        self._rows: dict[str, tuple[Listening, list[Session], Params]] = {}
        bare = self._open(stack, folder, [YARD, str(HERE / "bare_asgi.py"), "PORT", *CHILD])
        config = hub_config(folder.parent, {"child": CHILD})
        legacy = self._open(stack, folder, hub_on_http(config, 0))
        operator = self._open(stack, folder, hub_on_http(config, 0, folder))
        path = reading(folder)
        self._row(BARE_ROW, bare, ECHO, [folder])
        for kind, params in {"no path": ECHO, "one path": path}.items():
            self._row(f"hub, legacy, {kind}", legacy, params, [folder])
            self._row(f"hub, modern, {kind}", operator, params, None, modern=True)
        asked = "hub, modern that is asked for roots, one path"
        self._row(asked, legacy, path, [folder], modern=True)
        for _, sessions, _ in self._rows.values():
            for session in sessions:
                stack.callback(session.close)
        self._flood = {
            apart: Table(f"HTTP, {SESSIONS} sessions, {place}", "calls/s", BARE_ROW)
            for place, apart in PLACES.items()
        }
        for table in self._flood.values():
            for era in ("legacy", "modern"):
                table.targets[f"hub, {era}, no path"] = Target(0.5, True)
                table.targets[f"hub, {era}, one path"] = Target(0.33, True)

    def _open(self, stack: ExitStack, folder: Path, argv: list[str]) -> Listening:
        port = free_port()
        words = [
            word.replace("PORT", str(port)).replace("127.0.0.1:0", f"127.0.0.1:{port}")
            for word in argv
        ]
        server = Listening(words, port, folder=folder.parent)
        stack.callback(server.end)
        server.ready()
        return server

    def _row(
        self,
        name: str,
        server: Listening,
        params: Params,
        roots: list[Path] | None,
        modern: bool = False,
    ) -> None:
        sessions = [
            Session(server.address, "/mcp", modern=modern, roots=roots) for _ in range(SESSIONS)
        ]
        for session in sessions:
            session.begin()
            session.request("tools/call", params)
        self._rows[name] = server, sessions, params

    def round(self) -> None:
        """Measure all rows once."""
        for apart in PLACES.values():
            for name, (server, sessions, params) in self._rows.items():
                place(server.process.pid, apart=apart)
                self._flood[apart].add(name, Flood(sessions, params).run(0.2))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return list(self._flood.values())


def main() -> None:
    """Print the tables."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(machine())
    print(f"Medians of {rounds} rounds; spread: the middle half of the rounds.\n")
    place_us()
    with ExitStack() as stack:
        parts = [Stdio(stack), Http(stack)]
        for _ in range(rounds):
            for part in parts:
                part.round()
        for part in parts:
            for table in part.tables:
                print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
