"""No call passes under a split config that did not pass before: held against the guard itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hub.config.fields import LoadContext
from hub.config.models import HubConfig, RemoteServer, StdioServer
from hub.config.operator_roots import PathContext, operator_roots
from hub.config.reload.orders import ORDERS
from hub.config.reload.tightening import changed_keys, config_change
from hub.config.to_specs import usable_servers
from hub.guard.decide import Admitted, compile_tool, decide
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Access, DenyPatterns, Policy, ToolPolicy
from hub.launch.environments import inherited
from hub.paths.resolve import Flavour, PathError, is_inside, parts_of, resolve
from hub.roots.effective import effective_roots
from hub.roots.roots import Announcement, RootSet, UnsafePaths
from hub.roots.state import Asking, RootsKnown, Settled, State, Undeclared
from hub.system.machine import OsDisk
from hub.values import JsonObject
from tests.kit.trees import plant
from tests.kit.worlds import context, share, tool_call

TREE = (
    *(".git/", "a/one.txt", "a/.env", "a/sub/one.txt", "a/sub/deep/two.txt", "b/one.txt"),
    *("c/", "a/link => ../b", "to_sub => a/sub"),
)
FOLDERS = (".", "a", "b", "a/sub", "a/sub/deep", "to_sub", "a/link", "c", "gone")
FILES = (
    *("a/one.txt", "a/.env", "a/sub/one.txt", "a/sub/deep/two.txt", "a/sub/deep/new", "b/one.txt"),
    *("a/link/one.txt", "c/new.txt", "to_sub/one.txt", "other.txt", "a/sub"),
)
PATTERNS = ("*.txt", "!one.txt", "sub", "!sub", "/one.txt", "sub/deep", "**/.env", "a/**", "# sub")
EXAMPLES = settings().max_examples // 2
"""For a build; `make fuzz` tries ever new ones."""
VARIABLES = {"PATH": "/bin", "API_KEY": "k", "LANG": "C", "LC_ALL": "C", "HOME": "/home/user"}


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("tree"), *TREE)


# Configs


def some(values: tuple[Any, ...], most: int = 3) -> SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), max_size=most, unique_by=repr)


def keys(**values: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """Return mappings with any of these keys."""
    return st.fixed_dictionaries({}, optional=values)


LIMIT = st.integers(1, 3)
LIMITS = ("calls_per_minute", "in_flight", "sessions", "children", "bytes_per_minute")
GUARD = keys(
    mode=st.sampled_from(("enforce", "enforce", "report", "off")),
    on_refused=st.sampled_from(("ask", "refuse")),
    rewrite=st.sampled_from(("verbatim", "canonical")),
    refuse_options=st.booleans(),
)
OVERRIDE = keys(
    access=st.sampled_from(("read", "write")),
    guard=st.sampled_from(("enforce", "report", "off")),
    title=st.sampled_from(("A", "B")),
    arguments=st.dictionaries(
        st.sampled_from(("/path", "/text", "/list/*", "/list/0", "/list")),
        st.sampled_from(("path", "ignore", "payload", "neutral", "glob")),
        max_size=3,
    ),
)
TOOLS = keys(
    allow=some(("*", "read_*", "read_file", "write_file")),
    deny=some(("read_*", "read_file", "write_*")),
    overrides=st.dictionaries(st.sampled_from(("read_file", "write_file")), OVERRIDE),
)
SERVER = {
    "guard": GUARD,
    "share": st.sampled_from(("auto", "roots", "session", "all")),
    "timeout": LIMIT,
    "concurrency": LIMIT,
}


@st.composite
def confinements(draw: st.DrawFn) -> dict[str, Any]:
    mode = draw(st.sampled_from(("off", "auto", "require")))
    folders = some(("/r", "/r/a", "/w", "/w/a", "/x"))
    found = {"mode": mode, "read": draw(folders), "write": draw(folders)}
    found["allow"] = draw(some(("userns", "any_owner")))
    return found | ({"abi": draw(LIMIT)} if mode == "require" else {})


ENVIRONMENT = st.one_of(
    st.sampled_from(("default", "all", "minimal")), some(("LANG", "LC_*", "*", "API_KEY"))
)
STDIO = keys(
    **SERVER,
    args=st.sampled_from(([], ["-x"])),
    env=st.sampled_from(({}, {"A": "1"})),
    environment=ENVIRONMENT,
    confine=confinements(),
    roots=st.just({"args": "none"}),
).map(lambda found: {"command": "server", **found})
REMOTE = keys(**SERVER, paths=st.sampled_from(("local", "remote"))).map(
    lambda found: {"url": "https://host/mcp", **found}
)
ROOTS = st.fixed_dictionaries(
    {},
    optional={
        "fallback": some(FOLDERS),
        "ceiling": some(FOLDERS),
        "detect": st.booleans(),
        "when_missing": st.sampled_from(("allow", "deny")),
        "when_empty": st.sampled_from(("allow", "deny")),
        "strict": st.booleans(),
        "reuse": LIMIT,
        "deny": some(PATTERNS),
        "access": st.lists(
            st.fixed_dictionaries(
                {"path": st.sampled_from(FOLDERS[:7]), "access": st.sampled_from(("read", "write"))}
            ),
            max_size=3,
        ),
    },
)
PARTS: dict[str, SearchStrategy[dict[str, Any]]] = {
    "roots": ROOTS,
    "guard": GUARD,
    "listen": keys(max_result=st.integers(1024, 1026), origins=some(("http://a", "http://b"))),
    "s": STDIO,
    "tools": TOOLS,
    "t": REMOTE,
    "profiles": keys(limits=keys(**dict.fromkeys(LIMITS, LIMIT)), servers=some(("s", "t"), 1)),
    "tokens": keys(
        a=st.sampled_from(("2027-01-31", "2027-02-01", "2027-01-31T23:00:00-02:00")),
        b=st.sampled_from(("2026-01-31", "2028-01-31")),
    ),
    "": keys(
        max_children=LIMIT,
        max_children_per_session=LIMIT,
        instructions=st.sampled_from(("A", "B")),
    ),
}
USUAL: dict[str, dict[str, Any]] = {
    "roots": {"fallback": ["a"], "access": [{"path": "a/sub", "access": "read"}]},
    "s": {"command": "server"},
    "t": {"url": "https://host/mcp"},
}

Parts = dict[str, dict[str, Any]]


@st.composite
def changes(draw: st.DrawFn, varied: tuple[str, ...] = tuple(PARTS)) -> tuple[Parts, Parts]:
    """Return two configs, of which the second differs in some keys of the parts `varied`."""
    old = {name: draw(PARTS[name]) if name in varied else USUAL.get(name, {}) for name in PARTS}
    new = {name: dict(part) for name, part in old.items()}
    for name in draw(st.sets(st.sampled_from(varied), min_size=1)):
        fresh = draw(PARTS[name])
        for key in draw(st.sets(st.sampled_from(sorted({*fresh, *old[name], "-"})), min_size=1)):
            new[name].pop(key, None)
            if key in fresh:
                new[name][key] = fresh[key]
    return whole(old), whole(new, draw(st.sampled_from(("", "", "s"))))


def whole(parts: Parts, without: str = "") -> Parts:
    """Return the config with these parts, without one of its servers."""
    found = {"s": {**parts["s"], "tools": parts["tools"]}, "t": parts["t"]}
    servers = {name: kinds(one) for name, one in found.items() if name != without}
    rest = {name: parts[name] for name in ("roots", "guard")}
    tokens = [
        {"name": name, "sha256": name * 64, **({"expires": end} if end else {})}
        for name, end in (("a", parts["tokens"].get("a")), ("b", parts["tokens"].get("b")))
    ]
    rest["listen"] = {**parts["listen"], "tokens": tokens}
    rest["profiles"] = {"few": {**parts["profiles"]}}
    return {**parts[""], **rest, "servers": servers}


def kinds(server: dict[str, Any]) -> dict[str, Any]:
    return server if {"command", "url"} & server.keys() else {"command": "server", **server}


def load(raw: Mapping[str, Any], top: Path) -> HubConfig:
    context = LoadContext(top, "/home/user", VARIABLES)
    return HubConfig.model_validate({"version": 1, **raw}, context=context)


# What a config lets pass


UNSAFE = UnsafePaths("/home/user", Flavour.POSIX)


def place(top: Path) -> PathContext:
    return PathContext(OsDisk(), Flavour.POSIX, UNSAFE, str(top / "c"), VARIABLES)


def clients(top: Path) -> Iterator[State]:
    """Yield the states of clients: without roots, not answered yet, with these roots, with none."""
    yield State(Undeclared())
    yield State(Asking())
    for shared in ([top], [top / "a"], [top / "a/sub", top / "b"], []):
        known = RootsKnown(Announcement(share(*shared), ()), 0.0, is_empty=not shared)
        yield State(Settled(), last=known)
    yield State(Asking(), last=RootsKnown(Announcement(share(top), ()), 0.0))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {}, "list": {"type": "array"}},
}


def calls(top: Path) -> Iterator[JsonObject]:
    for file in FILES:
        yield {"path": f"{top}/{file}"}
    for file in FILES[:3]:
        yield {"text": f"{top}/{file}"}
        yield {"list": [f"{top}/{file}"]}


def passing(config: HubConfig, top: Path) -> Iterator[tuple[object, ...]]:
    """Yield each call that passes, for each client, and each that passes if its user agrees."""
    at = place(top)
    operator = operator_roots(config.roots, (), at)
    specs = usable_servers(config, at).specs.values()
    for number, state in enumerate(clients(top)):
        here = effective_roots(state, operator)
        for spec in specs:
            for tool in filter(spec.offer.includes, ("read_file", "write_file")):
                policy = spec.policy_of(tool)
                arguments = tuple(policy.arguments.items())
                case = VerdictCase(
                    policy.policy, arguments, policy.access, tool, here.roots, here.enforcing
                )
                for call in passing_in(case, top):
                    yield number, spec.name, tool, *call


class VerdictCase(NamedTuple):
    """All that verdicts depend on: many clients and configs have the same."""

    policy: Policy
    arguments: tuple[tuple[str, Kind], ...]
    access: Access | None
    tool: str
    roots: RootSet
    enforcing: bool


@cache
def passing_in(case: VerdictCase, top: Path) -> tuple[tuple[str, str], ...]:
    policy = ToolPolicy(case.policy, dict(case.arguments), case.access)
    guard = compile_tool(SCHEMA, read_only=case.tool == "read_file", policy=policy)
    at = context(case.roots, top / "c", env=VARIABLES, enforcing=case.enforcing)
    found = list[tuple[str, str]]()
    for call in calls(top):
        passes = isinstance(decide(tool_call(call), guard, at), Admitted)
        if passes:
            found.append((str(call), "as it is"))
        if passes or case.policy.on_refused == "ask":
            found.append((str(call), "if its user agrees"))
    return tuple(found)


# What a config lets a server's process do, and its limits


def located(path: str) -> tuple[str, ...] | None:
    try:
        found = resolve(path, cwd=None, links=OsDisk(), flavour=Flavour.POSIX)
    except PathError:
        return None
    return parts_of(found, Flavour.POSIX)


def is_confined_as_much(old: StdioServer, new: StdioServer) -> bool:
    modes = ("off", "auto", "require")
    was, is_now = old.confine, new.confine
    if was.mode == "off":
        return True

    def lie_in(paths: Sequence[str], tops: Sequence[str]) -> bool:
        return all(any(is_inside(parts(path), parts(top)) for top in tops) for path in paths)

    def parts(path: str) -> tuple[str, ...]:
        return parts_of(path, Flavour.POSIX)

    return (
        modes.index(was.mode) <= modes.index(is_now.mode)
        and was.abi <= is_now.abi
        and set(is_now.allow) <= set(was.allow)
        and lie_in(is_now.write, was.write)
        and lie_in(is_now.read, (*was.read, *was.write))
    )


def inherits_no_more(old: StdioServer, new: StdioServer) -> bool:
    before, after = (inherited(VARIABLES, one.environment, Flavour.POSIX) for one in (old, new))
    return after.items() <= before.items()


def is_no_longer(old: float | None, new: float | None) -> bool:
    return old is None or (new is not None and new <= old)


def is_no_later(old: datetime | None, new: datetime | None) -> bool:
    return old is None or (new is not None and new <= old)


def is_launched_as_before(old: StdioServer | RemoteServer, new: StdioServer | RemoteServer) -> bool:
    if isinstance(old, StdioServer) and isinstance(new, StdioServer):
        same = all(getattr(old, key) == getattr(new, key) for key in ("command", "args", "env"))
        return same and is_confined_as_much(old, new) and inherits_no_more(old, new)
    return isinstance(old, RemoteServer) and isinstance(new, RemoteServer) and old.url == new.url


SHARING = {"all": {"all"}, "roots": {"roots", "auto", "session"}, "auto": {"auto", "session"}}


@pytest.mark.parametrize("varied", [("roots",), ("guard", "tools"), ("t",)])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_no_call_passes_that_did_not_pass_before(
    top: Path, varied: tuple[str, ...], data: st.DataObject
) -> None:
    raw, wanted = data.draw(changes(varied))
    if "t" not in varied:  # one server shows it as well as two
        del raw["servers"]["t"], wanted["servers"]["t"]
    old, new = load(raw, top), load(wanted, top)
    found = config_change(old, new, only_tightens=True, locate=located)
    more = set(passing(found.config, top)) - set(passing(old, top))
    assert not more


NESTED = some((".", "a", "a/sub", "a/sub/deep", "b"), 2)
"""Folders inside each other."""


@settings(max_examples=2 * EXAMPLES)
@given(
    key=st.sampled_from(("fallback", "ceiling")),
    old=NESTED,
    new=NESTED,
    deny=some(("sub", "!sub", "/one.txt", "sub/deep", "deep", "*.txt"), 2),
)
def test_other_roots_reach_no_more(
    top: Path, key: str, old: list[str], new: list[str], deny: list[str]
) -> None:
    """Patterns are relative to a root: where a root is narrower, they may deny less."""
    server = {"servers": {"s": {"command": "server", "tools": {"allow": ["read_file"]}}}}
    was = load({"roots": {key: old, "deny": deny}, **server}, top)
    wanted = load({"roots": {key: new, "deny": deny}, **server}, top)
    found = config_change(was, wanted, only_tightens=True, locate=located)
    assert not set(passing(found.config, top)) - set(passing(was, top))


@pytest.mark.long
@settings(max_examples=2 * EXAMPLES)
@given(change=changes())
def test_nothing_else_is_looser(change: tuple[Parts, Parts]) -> None:
    old, new = (load(raw, Path("/top")) for raw in change)
    found = config_change(old, new, only_tightens=True, locate=located)
    made = found.config
    assert made.servers.keys() <= old.servers.keys() & new.servers.keys()
    for name, server in made.servers.items():
        before = old.servers[name]
        assert is_launched_as_before(before, server)
        assert server.share in SHARING.get(before.share, {before.share})
        assert is_no_longer(before.timeout, server.timeout)
        assert is_no_longer(before.concurrency, server.concurrency)
        texts = {tool: one.title for tool, one in before.tools.overrides.items() if one.title}
        assert {t: one.title for t, one in server.tools.overrides.items() if one.title} == texts
    for key in LIMITS:
        was, is_now = (getattr(one.profiles["few"].limits, key) for one in (old, made))
        assert is_no_longer(was, is_now)
    assert made.profiles["few"].servers == old.profiles["few"].servers
    ends = {one.name: one.expires for one in old.listen.tokens}
    assert {one.name for one in made.listen.tokens} <= ends.keys()
    for one in made.listen.tokens:
        assert is_no_later(ends[one.name], one.expires)
    assert is_no_longer(old.max_children, made.max_children)
    assert is_no_longer(old.max_children_per_session, made.max_children_per_session)
    assert is_no_longer(old.listen.max_result, made.listen.max_result)
    assert set(made.listen.origins) <= set(old.listen.origins)
    assert is_no_longer(old.roots.reuse, made.roots.reuse)
    assert made.instructions == old.instructions


WITHOUT_AN_EXCEPTION: tuple[Parts, Parts] = (
    {"roots": {"fallback": [], "deny": ["*.txt", "!one.txt"]}, "servers": {}},
    {"roots": {"fallback": [], "ceiling": ["."]}, "servers": {}},
)
"""The exception goes, and with it the reason for which the ceiling would wait."""


@example(change=WITHOUT_AN_EXCEPTION)
@settings(max_examples=EXAMPLES)
@given(change=changes())
def test_what_waits_and_what_is_taken_over_is_the_whole_change(
    change: tuple[Parts, Parts],
) -> None:
    """The merged config is a config, taking it over again changes nothing, and all is told."""
    old, new = (load(raw, Path("/top")) for raw in change)
    found = config_change(old, new, only_tightens=True, locate=located)
    assert HubConfig.model_validate(found.config.model_dump(exclude_unset=True)) == found.config
    again = config_change(found.config, new, only_tightens=True, locate=located)
    assert (again.taken, again.waiting) == ((), found.waiting)
    confirmed = config_change(found.config, new, only_tightens=False, locate=located)
    assert set(confirmed.taken) == {one.key for one in found.waiting}
    assert not [*changed_keys(confirmed.config, new)]
    assert not config_change(new, new, only_tightens=True, locate=located).waiting


@settings(max_examples=3 * EXAMPLES)
@given(
    old=some(PATTERNS, 4),
    new=some(PATTERNS, 4),
    path=st.lists(
        st.sampled_from(("a", "sub", "deep", ".env", "one.txt", "x")), min_size=1, max_size=4
    ),
)
def test_nothing_is_denied_less(old: list[str], new: list[str], path: list[str]) -> None:
    made = ORDERS["roots.deny"].tighter(tuple(old), tuple(new))
    if DenyPatterns(tuple(old)).refuses(tuple(path), folded=False):
        assert DenyPatterns(made).refuses(tuple(path), folded=False)
