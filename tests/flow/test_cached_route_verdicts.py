"""A cached route admits what a resolved one would, whatever becomes of the tree in between."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hub.calls.rounds.modern_routes import ModernRoute
from hub.calls.routes import CallRoute
from hub.catalog.search import Expose
from hub.guard.decide import Refused
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy
from hub.jsonrpc.messages import Request
from hub.launch.plan import LaunchTemplate
from hub.launch.templates import parse_template
from hub.paths.resolve import Flavour, parts_of
from hub.roots.effective import OperatorRoots
from hub.roots.roots import UnsafePaths
from hub.specs import ServerSpec
from hub.values import JsonObject
from tests.calls.rounds.test_modern_routes import announced, bringing, modern
from tests.calls.rounds.test_modern_routes import params as modern_params
from tests.kit.fakes import READ, FakeChild
from tests.kit.rigs import ROOTS, Rig, RigClient, launched, remote, rig, roots_at
from tests.kit.trees import plant

POSIX = Flavour.POSIX
WRITE: JsonObject = {"name": "write", "inputSchema": READ["inputSchema"]}
TREE = ("in/a/b/c/f", "in/a/f", "in/a/.ssh/key", "in/b/f", "in/a b/f", "out/b/c/f", "out/f")
PLACES = (
    *("in", "in/a", "in/a/b", "in/a/b/c", "in/a/f", "in/a/.ssh", "in/b", "in/b/f", "in/a b"),
    *("in/new", "in/a/new", "out", "out/b", "out/f", "out/new"),
)
ASKED = (
    *PLACES,
    "in/a/b/c/f",
    "in/a/b/new/x",
    "in/a/f/x",
    "in/b/../a/f",
    "in/a/.ssh/key",
    "out/b/c",
)
FORMS: Final[dict[str, Callable[[Path, str], JsonObject]]] = {
    "path": lambda top, at: {"path": f"{top}/{at}"},
    "folder": lambda top, at: {"path": f"{top}/{at}/"},
    "uri": lambda top, at: {"path": f"file://{top}/{at}"},
    "relative": lambda _, at: {"path": at.removeprefix("in/")},
    "near": lambda _, at: {"path": "./" + at.removeprefix("in/a/")},
    "glob": lambda top, at: {"pattern": f"{top}/{at}/*"},
    "relative glob": lambda _, at: {"pattern": at.removeprefix("in/") + "/**"},
    "any": lambda _top, _at: {"pattern": "**"},
}
"""How a place is named."""
SETS = (
    (),
    ("in",),
    ("in/a",),
    ("in/a", "in/a/b"),
    ("in/a/b", "in"),
    ("in/a/f", "in/b"),
    ("in/a b",),
)


def policies(top: Path) -> tuple[Policy, ...]:
    """Return policies of every kind."""
    rule = AccessRule(parts_of(str(top / "in/a/b"), POSIX), "read")
    return (
        Policy(),
        Policy(unsafe=UnsafePaths(str(top / "in/a"), POSIX)),
        Policy(symlinks="deny"),
        Policy(rewrite="canonical"),
        Policy(deny=DenyPatterns(("b/c/", "new"))),
        Policy(access=(rule,)),
        Policy(mode=Mode.REPORT),
        Policy(mode=Mode.OFF),
    )


Era: TypeAlias = Literal["legacy", "modern", "kept"]
"""Whose roots count: a session's, those that each request brings, or those that an earlier did."""
Change: TypeAlias = tuple[str, str, str]
"""What is done, to which place, and with which other."""


def move(one: Path, other: Path) -> None:
    one.rename(other)


def link_back(one: Path, other: Path) -> None:
    """Leave a link where something was that is somewhere else now."""
    one.rename(other)
    one.symlink_to(other)


def swap(one: Path, other: Path) -> None:
    spare = one.with_name("spare")
    other.rename(spare)
    one.rename(other)
    spare.rename(one)


def link(one: Path, other: Path) -> None:
    one.symlink_to(other)


def again(one: Path, other: Path) -> None:
    """Put another directory in place of one, with all that was in it."""
    names, spare = [path.name for path in one.iterdir()], one.with_name("spare")
    one.rename(spare)
    one.mkdir()
    for name in names:
        (spare / name).rename(one / name)
    spare.rmdir()


def remove(one: Path, other: Path) -> None:
    if one.is_dir() and not one.is_symlink():
        one.rmdir()
    else:
        one.unlink()


CHANGES: Final[dict[str, Callable[[Path, Path], None]]] = {
    "move": move,
    "link back": link_back,
    "swap": swap,
    "link": link,
    "again": again,
    "remove": remove,
    "make": lambda one, other: one.mkdir(parents=True),
    "write": lambda one, other: one.touch(),
    "special": lambda one, other: os.mkfifo(one),
}


def change(top: Path, how: Change) -> None:
    """Change the tree if it can be changed so."""
    what, one, other = how
    with suppress(OSError):
        CHANGES[what](top / one, top / other)


@dataclass(frozen=True)
class SharingSetting:
    """Who shares what, and what the operator lays down: a child with no `cwd` is remote."""

    era: Era
    shared: tuple[str, ...]
    ceiling: tuple[str, ...]
    own: tuple[str, ...]
    policy: int
    expose: Expose
    cwd: str | None


SETTINGS = st.builds(
    SharingSetting,
    era=st.sampled_from(("legacy", "modern", "kept")),
    shared=st.sampled_from(SETS[1:]) | st.sampled_from(SETS),
    ceiling=st.just(()) | st.sampled_from(SETS),
    own=st.just(()) | st.sampled_from(SETS),
    policy=st.sampled_from([0, 0, 0, *range(8)]),
    expose=st.sampled_from(("tools", "tools", "search")),
    cwd=st.none() | st.sampled_from(("${root}", "${root}/..", "${root}/a", "${root}/a/../..")),
)
CHANGING = st.lists(
    st.tuples(st.sampled_from(sorted(CHANGES)), st.sampled_from(PLACES), st.sampled_from(PLACES)),
    min_size=1,
    max_size=6,
)
Asking: TypeAlias = tuple[str, str, str]
"""The tool that is called, the form in which it is given a place, and the place."""
CALLS = st.lists(
    st.tuples(
        st.sampled_from(("read", "write")),
        st.just("path") | st.sampled_from(sorted(FORMS)),
        st.sampled_from(ASKED),
    ),
    min_size=1,
    max_size=5,
)


class Judged:
    """A client whose calls are judged in both ways."""

    def __init__(self, at: Rig, fake: FakeChild, shared: list[Path], era: Era) -> None:
        self._at = at
        self._fake = fake
        self._shared = shared
        self._era = era
        self._legacy = at.client(*shared) if era == "legacy" else None
        self._kept = announced(at, *shared) if era == "kept" else None

    def _params(self, tool: str, arguments: JsonObject) -> JsonObject:
        if self._at.services.expose == "search":
            arguments = {"serverName": "files", "toolName": tool, "toolArgs": arguments}
            tool = "call-tool"
        if self._era == "legacy":
            return {"name": tool, "arguments": arguments}
        if self._kept is not None:
            return modern_params(arguments, name=tool, capabilities=ROOTS)
        if not self._shared:
            return modern_params(arguments, name=tool)
        retry = bringing(*self._shared)
        return modern_params(arguments, name=tool, capabilities=ROOTS, inputResponses=retry)

    def _way(self, request: Request) -> CallRoute | None:
        if self._legacy is None:
            found = self._at.relay.modern_routes.find("alice", request, self._kept)
            return found if isinstance(found, ModernRoute) else None
        return self._at.relay.session_routes.find(self._legacy.session, request)

    async def call(self, tool: str, arguments: JsonObject) -> None:
        """Make a call: if its cached route has a verdict, then it must have the same without it."""
        params = self._params(tool, arguments)
        route = self._way(Request(1, "tools/call", params))
        verdict = None if route is None else route.judge(params)
        client = self._legacy or modern(self._at, *self._shared, kept=self._kept)
        await self._relayed(client, params)
        if verdict is None or self._is_moved_as_a_whole():
            return
        record = self._at.audit.records[-1]
        if isinstance(verdict, Refused):
            said = ("refused", verdict.pointer, verdict.path)
            assert (record.verdict, record.pointer, record.path) == said, record
            return
        assert (record.verdict, record.would_refuse) == ("admitted", False), record
        sent = [link.requests("tools/call") for link in self._fake.links]
        assert verdict.call.params in [calls[-1]["params"] for calls in sent if calls]

    async def _relayed(self, client: RigClient, params: JsonObject) -> None:
        await client.request(client.asked_for("tools/call", params))
        if client is not self._legacy:
            client.session.close()

    def _is_moved_as_a_whole(self) -> bool:
        """Whether a root was moved with all above it, and is found by a link in its place.

        It is the very directory that was shared, though the relay wants it shared anew.
        """
        operator = self._at.services.operator.roots()
        given = [*self._shared, *(operator.ceiling.paths if operator.ceiling else ())]
        return any(os.path.realpath(slot) != str(slot) for slot in given)


def running_in(cwd: str) -> ServerSpec:
    """Return a server that is a process in this directory."""
    template = LaunchTemplate("files", parse_template("server"), cwd=parse_template(cwd))
    return replace(launched("files"), target=template)


async def walk(setting: SharingSetting, changes: list[Change], calls: list[Asking]) -> None:
    """Make all calls again and again, while the tree changes."""
    with TemporaryDirectory() as made:
        top = plant(Path(made), *TREE)
        sets = (setting.shared, setting.ceiling, setting.own)
        shared, ceiling, own = ([top / name for name in names] for names in sets)
        operator = OperatorRoots(ceiling=roots_at(*ceiling) if ceiling else None)
        spec = replace(
            remote("files") if setting.cwd is None else running_in(setting.cwd),
            policy=policies(top)[setting.policy],
            ceiling=roots_at(*own) if own else None,
        )
        fake = FakeChild(READ, WRITE)
        specs = {"files": spec}
        async with rig(specs, {"files": fake}, operator=operator, expose=setting.expose) as at:
            judged = Judged(at, fake, shared, setting.era)
            for following in [*changes, None]:
                for tool, form, slot in (*calls, *calls):
                    await judged.call(tool, FORMS[form](top, slot))
                if following is not None:
                    change(top, following)


@pytest.mark.long
@settings(max_examples=settings().max_examples // 2)  # each is dozens of calls
@given(SETTINGS, CHANGING, CALLS)
def test_a_call_goes_by_a_cached_route_only_if_a_resolved_one_would_admit_it(
    setting: SharingSetting, changes: list[Change], calls: list[Asking]
) -> None:
    anyio.run(partial(walk, setting, changes, calls), backend_options={"use_uvloop": True})
