"""What the kinds of calls cost, beside a plain one: `python -m bench.kinds [ROUNDS]`.

A plain call is a `tools/call` with one path, in a session whose child runs, of a tool that was
called before. In every round each kind has its turn, before the same hubs.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.cases import Params, folder_in, reading
from bench.figures import Part, Table, Target, machine, measure
from bench.piped import Piped, WrongAnswerError
from bench.placing import place_us
from bench.posting import Session
from bench.programs import (
    CHILD,
    RELAY,
    HttpProgram,
    exit_on_sigterm,
    free_port,
    hub_config,
    hub_on_http,
    hub_on_stdio,
    keep_memory,
)

OFFERING = [*CHILD, "--offers", "1"]
TIMES = 300
FIRST = 40
"""First calls in a round; each is of another tool."""
ROUNDS = 20
"""The most rounds that there are tools for."""
SETTLED = 0.3
"""Seconds in which the hubs do what they put off, such as log lines: not a part of what is next."""
PLAIN = "plain: one path"
BARE_ROW, ASKING_ROW = "bare relay: one path", "bare relay that asks the user first"
CONSENT = "the user is asked for consent"
OWN_SHARE = "the same, without what asking takes the bare relay"
"""The client's own answer is in what both take."""
AS_FAST, NEAR = Target(1.5), Target(3)
OUTSIDE: Params = {"name": "read_file", "arguments": {"path": "/etc/passwd"}}
ALLOWED: Params = {"action": "accept", "content": {"decision": "allow once"}}


class Client(Piped):
    """A client on stdio that answers questions at once."""

    def __init__(self, stack: ExitStack, argv: Sequence[str], root: Path) -> None:
        super().__init__(argv, folder=root.parent, roots=[root])
        stack.callback(self.end)
        self._number = 0
        # What the SDKs' clients say of themselves decides whether they are asked.
        capabilities = {"roots": {"listChanged": True}, "elicitation": {}}
        info = {"name": "bench", "version": "1"}
        version = {"protocolVersion": "2025-11-25"}
        self.request("initialize", {**version, "capabilities": capabilities, "clientInfo": info})
        self.send({"method": "notifications/initialized"})
        for kind in ("tools", "resources", "prompts"):
            self.request(f"{kind}/list", {})

    def ask(self, method: str, params: Params, wanted: bytes = b'"result"') -> float:
        """Return the seconds that a request takes until its answer, which has `wanted` in it.

        Raises: WrongAnswerError.
        """
        self._number += 1
        sent = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        line = json.dumps(sent).encode() + b"\n"
        began = time.perf_counter()
        self._write(line)
        answer = self.line()
        while b'"method"' in answer[:200]:
            self._agree(json.loads(answer))
            answer = self.line()
        taken = time.perf_counter() - began
        if wanted not in answer:
            raise WrongAnswerError(f"{method} {params}: {answer[:500]!r}")
        return taken

    def _agree(self, message: dict[str, Any]) -> None:
        if message["method"] == "elicitation/create":
            self.send({"id": message["id"], "result": ALLOWED})
        else:
            self._oblige(message)


def p50(take: Callable[[], float], times: int = TIMES) -> float:
    """Return the median of so many calls, in microseconds."""
    return statistics.median(take() for _ in range(times)) * 1e6


class OnStdio:
    """A legacy client on stdio."""

    def __init__(self, stack: ExitStack) -> None:
        folder = folder_in(stack)
        top = folder.parent
        tools = [*OFFERING, "--tools", str(FIRST * (ROUNDS + 1))]
        self._path = reading(folder)
        one = hub_config(_made(top, "one"), {"child": tools})
        self._bare = Client(stack, hub_on_stdio(one), folder)
        few = [*CHILD, "--few", "1", "--tools", "5"]
        two = hub_config(_made(top, "two"), {"child": OFFERING, "other": few}, names="never")
        self._never = Client(stack, hub_on_stdio(two), folder)
        guard = {"mode": "enforce", "on_refused": "ask"}
        asking = hub_config(_made(top, "asking"), {"child": OFFERING}, guard=guard)
        self._asking = Client(stack, hub_on_stdio(asking), folder)
        self._relay = Client(stack, [*RELAY, *OFFERING], folder)
        self._asking_relay = Client(stack, [*RELAY, "--ask", *OFFERING], folder)
        self._outside: Params = {
            "name": "read_file",
            "arguments": {"path": str(folder_in(stack, "other") / "src/main.py")},
        }
        self._fresh: Iterator[int] = iter(range(FIRST * (ROUNDS + 1)))
        near = dict.fromkeys(("the first call of a tool", CONSENT), NEAR)
        fast = dict.fromkeys(
            ("no path", "refused", "resources/read", "prompts/get", "names: never"), AS_FAST
        )
        self._table = Table(
            "kinds of calls on stdio, p50", "µs", PLAIN, 1, targets={**fast, **near}
        )

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [self._table]

    def round(self) -> None:
        """Measure all once."""
        call, one = "tools/call", self._bare

        def take(row: str, measured: Callable[[], float]) -> None:
            time.sleep(SETTLED)
            self._table.measure(row, measured)

        echo: Params = {"name": "echo", "arguments": {"text": "hello"}}
        prompt: Params = {"name": "ask", "arguments": {"path": "src"}}
        take(PLAIN, lambda: p50(lambda: one.ask(call, self._path)))
        take("no path", lambda: p50(lambda: one.ask(call, echo)))
        take("refused", lambda: p50(lambda: one.ask(call, OUTSIDE, b"Access denied")))
        take(
            "resources/read", lambda: p50(lambda: one.ask("resources/read", {"uri": "note://one"}))
        )
        take("prompts/get", lambda: p50(lambda: one.ask("prompts/get", prompt)))
        take("names: never", lambda: p50(lambda: self._never.ask(call, self._path)))
        take("the first call of a tool", lambda: p50(self._first, FIRST))
        plain, asked = self._relay.ask, self._asking_relay.ask
        take(BARE_ROW, lambda: p50(lambda: plain(call, self._path)))
        take(ASKING_ROW, lambda: p50(lambda: asked(call, self._path)))
        consented = self._asking.ask
        take(CONSENT, lambda: p50(lambda: consented(call, self._outside, b'"done"')))
        rows = self._table.rows
        if all(row in rows for row in (BARE_ROW, ASKING_ROW, CONSENT)):
            question = rows[ASKING_ROW][-1] - rows[BARE_ROW][-1]
            self._table.add(OWN_SHARE, rows[CONSENT][-1] - question)

    def _first(self) -> float:
        arguments = {**self._path["arguments"], "query": "x", "limit": 1}
        name = f"tool_{next(self._fresh)}"
        return self._bare.ask("tools/call", {"name": name, "arguments": arguments})


class OverHttp:
    """A modern client over HTTP."""

    def __init__(self, stack: ExitStack) -> None:
        folder = folder_in(stack)
        config = hub_config(_made(folder.parent, "http"), {"child": OFFERING})
        port = free_port()
        program = HttpProgram(hub_on_http(config, port, folder), port, folder=folder.parent)
        stack.callback(program.end)
        program.ready()
        self._path = reading(folder)
        self._plain = Session(program.address, "/mcp", modern=True)
        self._marked = Session(program.address, "/mcp", modern=True)
        for session in (self._plain, self._marked):
            stack.callback(session.close)
            session.begin()
        self._marked.repeat({"Mcp-Param-Text": "hello"})
        self._table = Table(
            "kinds of calls over HTTP, modern, p50",
            "µs",
            PLAIN,
            1,
            targets={"with header annotations": AS_FAST},
        )

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [self._table]

    def round(self) -> None:
        """Measure all once."""
        marked: Params = {"name": "marked", "arguments": {"text": "hello"}}
        sessions = (
            (PLAIN, self._plain, self._path),
            ("with header annotations", self._marked, marked),
        )
        for row, session, params in sessions:
            time.sleep(SETTLED)
            self._table.measure(row, lambda s=session, p=params: _median(s, p))


def _median(session: Session, params: Params) -> float:
    session.request("tools/call", params)
    session.prepare(params)
    return statistics.median(session.one_by_one(params, TIMES)) * 1e6


def _made(top: Path, name: str) -> Path:
    folder = top / name
    folder.mkdir()
    return folder


def lines(rounds: int) -> Iterator[str]:
    """Give the tables."""
    with ExitStack() as stack:
        parts: Sequence[Part] = [OnStdio(stack), OverHttp(stack)]
        measure(parts, min(rounds, ROUNDS))
        for part in parts:
            for table in part.tables:
                yield from table.lines()


def main() -> None:
    """Print the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    exit_on_sigterm()
    keep_memory()
    print(machine())
    print(f"Medians of {rounds} rounds; spread: the middle half of the rounds.\n", flush=True)
    place_us()
    for line in lines(rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
