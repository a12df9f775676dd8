"""What a hub holds: listings of many tools, memory with ten children, and after many sessions."""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import ECHO, folder_in, reading
from bench.figures import Target
from bench.peers import Peer
from bench.piped import Piped, WrongAnswerError, within
from bench.placing import children, place
from bench.posting import Session
from bench.programs import (
    BARE,
    CHILD,
    HttpProgram,
    free_port,
    hub_config,
    hub_on_http,
    hub_on_stdio,
)
from bench.streaming import StreamSession

CHILDREN = {f"child{number}": [*CHILD, "--tools", "46"] for number in range(10)}
"""Ten servers with 50 tools each."""
WARM = 500
"""Sessions after which the memory of a hub counts as what it needs."""
MANY = 10_000


def memory(pid: int) -> float:
    """Return the MB that a process holds, without those that it started."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def listings(stack: ExitStack) -> list[str]:
    """Return how long a warm list of 500 tools takes, and what the hub holds with ten children."""
    folder = folder_in(stack)
    config = hub_config(folder.parent, CHILDREN)
    hub = Piped(hub_on_stdio(config), folder=folder.parent, roots=[folder])
    stack.callback(hub.end)
    hub.begin()
    for name in CHILDREN:
        hub.request("tools/list", {})
        hub.request("tools/call", {**reading(folder), "name": f"{name}__read_file"})
    listed = hub.request("tools/list", {})
    place(hub.process.pid, apart=True)
    taken = [one * 1e3 for one in hub.one_by_one({}, 50, "tools/list")]
    median, held = statistics.median(taken), memory(hub.process.pid)
    beside = sum(memory(pid) for pid in children(hub.process.pid) if "forkserver" in _command(pid))
    return [
        f"tools/list of {len(CHILDREN)} children with 50 tools each, warm: "
        f"{len(listed['tools'])} tools in {median:.2f} ms, {Target(2).verdict(median)}",
        f"memory with {len(CHILDREN)} children, stdio: {held:.1f} MB, {Target(75).verdict(held)}"
        f" (and {beside:.1f} MB for the program that forks its children's parents)",
    ]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def sessions(stack: ExitStack, many: int = MANY) -> list[str]:
    """Return what a hub on HTTP holds with ten children, and after so many sessions."""
    folder = folder_in(stack)
    config, port = hub_config(folder.parent, CHILDREN), free_port()
    hub = HttpProgram(hub_on_http(config, port), port, folder=folder.parent)
    stack.callback(hub.end)
    hub.ready()
    pid = hub.process.pid
    for _ in range(WARM):
        _visit(hub, folder)
    early = memory(pid)
    for _ in range(many):
        _visit(hub, folder)
    late = memory(pid)
    more = (late / early - 1) * 100
    return [
        f"memory with {len(CHILDREN)} children, HTTP, after {WARM} sessions: {early:.1f} MB, "
        f"{Target(75).verdict(early)}",
        f"memory {many:,} sessions later: {late:.1f} MB, {more:+.1f} %, {Target(5).verdict(more)}",
    ]


def _visit(hub: HttpProgram, folder: Path) -> None:
    """Be one client: come, list, call each child once, and go."""
    session = Session(hub.address, "/mcp", roots=[folder])
    session.begin()
    session.request("tools/call", {**reading(folder), "name": "child0__read_file"})
    session.request("tools/call", {**ECHO, "name": "child9__echo"})
    session.end()


def of_others(stack: ExitStack, stdio: Sequence[Peer], http: Sequence[Peer]) -> list[str]:
    """Return what programs hold with one child, with all that they started but the child."""
    folder = folder_in(stack)
    config = hub_config(folder.parent, {"child": CHILD})
    commands = {"bare relay": BARE, "hub": hub_on_stdio(config)}
    found = [
        _held(name, partial(_piped, stack, folder, lambda argv=argv: argv))
        for name, argv in commands.items()
    ]
    for peer in stdio:
        argv = partial(peer.argv, folder.parent, 0)
        found.append(_held(f"{peer.name} (stdio)", partial(_piped, stack, folder, argv, peer)))
    found += [_held(f"{one.name} (HTTP)", partial(_posted, stack, folder, one)) for one in http]
    return [f"memory with one child, with all processes but the child: {', '.join(found)}"]


def _held(name: str, start: Callable[[], int]) -> str:
    try:
        with within(90):
            held = _tree(start())
    except (WrongAnswerError, OSError, ValueError) as exc:
        return f"{name} failed: {exc}"
    return f"{name} {held:.0f} MB"


def _tree(pid: int) -> float:
    if CHILD[1] in _command(pid).split()[1:2]:
        return 0
    return memory(pid) + sum(map(_tree, children(pid)))


def _piped(
    stack: ExitStack, folder: Path, argv: Callable[[], list[str]], peer: Peer | None = None
) -> int:
    if peer is not None:
        peer.require()
    program = Piped(argv(), folder=folder.parent, roots=[folder])
    stack.callback(program.end)
    program.begin()
    if peer is None:
        program.request("tools/list", {})
    else:
        peer.await_child(program)
    return program.process.pid


def _posted(stack: ExitStack, folder: Path, peer: Peer) -> int:
    peer.require()
    port = free_port()
    server = HttpProgram(peer.argv(folder.parent, port), port, folder=folder.parent)
    stack.callback(server.end)
    server.ready()
    session = (StreamSession if peer.streams else Session)(
        server.address, peer.path, roots=[folder]
    )
    stack.callback(session.close)
    session.begin()
    peer.await_child(session)
    return server.process.pid


def main() -> None:
    """Print all of it."""
    many = int(sys.argv[1]) if len(sys.argv) > 1 else MANY
    with ExitStack() as stack:
        print("\n".join([*listings(stack), *of_others(stack, (), ()), *sessions(stack, many)]))


if __name__ == "__main__":
    main()
