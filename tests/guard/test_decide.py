import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hub.guard.budget import FULL_BUDGET, Budget
from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import (
    Admitted,
    Refused,
    ToolGuard,
    compile_tool,
    decide,
    decide_within_inline_budget,
    explain,
)
from hub.guard.keys.vocabulary import Kind
from hub.guard.plain_paths import PlainPathCheck
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy
from hub.paths.resolve import CachedDisk, Entry, LinkReader, PathError
from hub.roots.roots import EMPTY, RootSet, UnsafePaths, parse_announcement, root_set
from hub.system.machine import OsDisk
from hub.values import Call, Json, JsonObject
from tests.kit.fakes import RecordingDisk
from tests.kit.trees import PROJECT, grow, plant
from tests.kit.worlds import (
    MACOS,
    POSIX,
    WINDOWS,
    Directories,
    at_once,
    context,
    on_windows,
    share,
    tool_call,
)

CATALOGUE = Path(__file__).parent / "data" / "catalogue.jsonl"
ROWS = [cast("JsonObject", json.loads(line)) for line in CATALOGUE.read_text().splitlines()]
# What another layer must stop, and what only an operator can decide, is not for the guard alone.
JUDGED = [row for row in ROWS if row["layer"] == "argument" and "policy" not in row]
# A test for each row would take far longer than what it tests.
FAMILIES = sorted({str(row["id"]).rpartition("-")[0] for row in JUDGED})
OUTSIDE_PATCH = "--- a/x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n"
DEFAULT = ToolPolicy()


def judge(
    arguments: JsonObject,
    world: CallContext,
    policy: Policy | None = None,
    *,
    read_only: bool = False,
    schema: Json = None,
) -> Admitted | Refused:
    guard = compile_tool(schema, read_only=read_only, policy=ToolPolicy(policy or Policy()))
    return decide(tool_call(arguments), guard, world)


def placed(value: Json, top: str) -> Json:
    """Put `/R` where the tree was planted."""
    if isinstance(value, str):
        value = value.replace("/R/", f"{top}/").replace("%2FR%2F", top.replace("/", "%2F") + "%2F")
        return value[:-2] + top if value.endswith("/R") else value
    if isinstance(value, list):
        return [placed(member, top) for member in value]
    if isinstance(value, dict):
        return {str(placed(key, top)): placed(member, top) for key, member in value.items()}
    return value


def planted(row: JsonObject, top: Path) -> None:
    plant(top, *PROJECT)
    for op in cast("list[dict[str, str]]", placed(row.get("fs_setup") or [], str(top))):
        path = op["path"].removeprefix(f"{top}/")
        match op["op"]:
            case "dir":
                plant(top, f"{path}/")
            case "file":
                plant(top, path)
            case "symlink":
                plant(top, f"{path} => {op['target']}")
            case "hardlink":
                (top / path).hardlink_to(op["target"])
            case other:
                raise AssertionError(other)


def world_of(row: JsonObject, top: Path) -> tuple[CallContext, JsonObject]:
    env: dict[str, str] = {"HOME": "/home/u", "USER": "u"}
    links: LinkReader = Directories()
    flavour, cwd = {"darwin": MACOS, "windows": WINDOWS}.get(str(row["platform"]), POSIX), None
    if flavour is POSIX:
        row = cast("JsonObject", placed(row, str(top)))
        env["HOME"] = f"{top}/home"
        links = CachedDisk(OsDisk())
    uris = cast("list[str]", row["roots"])
    if flavour is POSIX and uris and uris[0].endswith("/project"):
        cwd = f"{top}/project"
    roots: Json = [{"uri": uri} for uri in uris]
    announced = parse_announcement({"roots": roots}, links=links, flavour=flavour, unsafe=None)
    assert announced is not None
    env |= cast("dict[str, str]", row.get("env") or {})
    return CallContext(announced.roots, cwd, env, links, flavour), cast(
        "JsonObject", row["arguments"]
    )


@pytest.fixture(scope="module")
def tree_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[JsonObject], Path]:
    """Plant the tree of a row once for all rows with the same: none changes anything in it."""

    @cache
    def tree(setup: str) -> Path:
        top = tmp_path_factory.mktemp("tree").resolve()
        planted({"fs_setup": json.loads(setup)}, top)
        return top

    return lambda row: tree(json.dumps(row.get("fs_setup", [])))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_catalogue_is_judged_as_it_says(
    family: str, tree_of: Callable[[JsonObject], Path]
) -> None:
    wrong = dict[str, Admitted | Refused]()
    for row in JUDGED:
        if str(row["id"]).rpartition("-")[0] == family:
            world, arguments = world_of(row, tree_of(row))
            verdict = judge(arguments, world, schema=row.get("tool_schema"))
            if ("deny" if isinstance(verdict, Refused) else "allow") != row["expect"]:
                wrong[str(row["id"])] = verdict
    assert wrong == {}


def test_a_path_is_admitted_only_below_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/evil => ../private")
    world = context(share(top / "project", top / "docs"), top / "project")
    for inside in ("a.txt", f"{top}/docs/b.md", f"file://{top}/project/a.txt", "src/../a.txt"):
        assert isinstance(judge({"path": inside}, world), Admitted)
    for outside in ("../private/secret.txt", f"{top}/project2/x.txt", "evil/secret.txt", "/etc"):
        assert isinstance(judge({"options": [{"filePath": outside}]}, world), Refused)


def test_the_refusal_is_one_line_a_model_can_act_on(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    verdict = judge({"a": {"path/x": "/etc/passwd"}}, context(share(top / "project", top / "docs")))
    assert isinstance(verdict, Refused)
    assert verdict.pointer == "/a/path~1x"
    assert verdict.message() == (
        "Access denied: Path '/etc/passwd' is outside the allowed roots boundaries. "
        f'Current roots: ["file://{top}/project", "file://{top}/docs"]'
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a\nb", "Access denied: Path 'a?b' is refused: it contains a control character"),
        (7, "Access denied: Path '7' is refused: a number is not a path"),
    ],
)
def test_another_reason_has_its_own_sentence(tmp_path: Path, value: Json, message: str) -> None:
    verdict = judge({"path": value}, context(share(tmp_path)))
    assert isinstance(verdict, Refused)
    assert verdict.message().startswith(message)
    assert "\n" not in verdict.message()


def test_no_roots_refuse_everything() -> None:
    verdict = judge({"path": "/a.txt"}, context(EMPTY))
    assert isinstance(verdict, Refused)
    assert verdict.message().endswith("Current roots: []")


def test_a_refusal_says_why_there_are_no_roots(tmp_path: Path) -> None:
    why = "The client shares no folder: its list of roots is empty."
    verdict = judge({"path": "/a.txt"}, replace(context(EMPTY), no_roots=why))
    assert isinstance(verdict, Refused)
    assert verdict.message().endswith(f"Current roots: []. {why}")
    inside = judge({"path": "/a.txt"}, replace(context(share(tmp_path)), no_roots=why))
    assert isinstance(inside, Refused)
    assert why not in inside.message()


def test_only_the_guard_admits() -> None:
    with pytest.raises(TypeError):
        Admitted(tool_call({}))
    admitted = judge({}, context(EMPTY))
    assert isinstance(admitted, Admitted)
    with pytest.raises(TypeError):
        replace(admitted, call=tool_call({"path": "/etc/passwd"}))
    with pytest.raises(TypeError):
        Admitted(tool_call({}), token=admitted.token)


def test_modes(tmp_path: Path) -> None:
    world = context(share(tmp_path))
    refused = judge({"path": "/etc"}, world)
    assert isinstance(refused, Refused)
    off = judge({"path": "/etc"}, world, Policy(mode=Mode.OFF))
    assert isinstance(off, Admitted)
    assert off.would_refuse is None
    reported = judge({"path": "/etc"}, world, Policy(mode=Mode.REPORT))
    assert isinstance(reported, Admitted)
    assert reported.would_refuse == refused


def test_paths_that_the_operator_refuses_stay_refused_below_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path, "home/.ssh/id_rsa", "home/a/.env", "home/vendor/x", "home/l => a")
    policy = Policy(
        deny=DenyPatterns(("**/.env", "/l/")),
        unsafe=UnsafePaths(f"{top}/home", POSIX),
        access=(AccessRule((*top.parts[1:], "home", "vendor"), "read"),),
    )
    world = context(share(top / "home"), top / "home")
    for path in (".ssh/id_rsa", "a/.env", "vendor/x", f"{top}/home/l/new", f"{top}/home/a/.env"):
        assert isinstance(judge({"path": path}, world, policy), Refused)
    for path in ("vendor/x", "a/b"):
        assert isinstance(judge({"path": path}, world, policy, read_only=True), Admitted)


def test_a_client_without_roots_is_held_to_the_operators_patterns_only(tmp_path: Path) -> None:
    world = context(EMPTY, tmp_path, enforcing=False)
    for path in ("/any/path", "/etc/passwd", "a", "~x/y", "C:\\x"):
        assert isinstance(judge({"path": path}, world), Admitted)
    policy = Policy(deny=DenyPatterns(("**/.env",)), unsafe=UnsafePaths(None, POSIX))
    assert isinstance(judge({"path": "/any/.env"}, world, policy), Refused)
    assert isinstance(judge({"path": ".env"}, world, policy), Refused)
    assert isinstance(judge({"path": "/any/path"}, world, policy), Admitted)
    assert isinstance(judge({"path": "C:\\x"}, world, policy), Admitted)
    assert isinstance(judge({"path": "/etc/hosts"}, world, policy), Admitted)


def test_links_can_be_denied_altogether(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/ok => src", "way => project")
    world = context(share(top / "project"), top / "project")
    never = Policy(symlinks="deny")
    assert isinstance(judge({"path": "ok/a.py"}, world), Admitted)
    assert isinstance(judge({"path": "ok/a.py"}, world, never), Refused)
    assert isinstance(judge({"path": f"{top}/project/ok/a.py"}, world, never), Refused)
    assert isinstance(judge({"path": f"{top}/way/src/a.py"}, world, never), Admitted)


def test_a_leading_dash_can_be_denied_where_a_revision_goes(tmp_path: Path) -> None:
    world = context(share(tmp_path))
    never = Policy(refuse_options=True)
    for key in ("branch", "revision", "branch_name"):
        assert isinstance(judge({key: "-D"}, world), Admitted)
        assert isinstance(judge({key: "-D"}, world, never), Refused)
    assert isinstance(judge({"sort": "-date"}, world, never), Admitted)


def test_a_leading_dash_is_denied_as_well_where_no_roots_apply(tmp_path: Path) -> None:
    world = context(EMPTY, tmp_path, enforcing=False)
    never = Policy(refuse_options=True)
    assert isinstance(judge({"path": "/x", "branch": "-D"}, world), Admitted)
    assert isinstance(judge({"path": "/x", "branch": "-D"}, world, never), Refused)
    for path in ("/etc/passwd", "~x/y", "a/*/../x"):
        assert isinstance(judge({"path": path, "branch": "main"}, world, never), Admitted)


def test_absolute_paths_can_be_forwarded_in_their_canonical_form(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "way => project")
    world = context(share(top / "project"), top / "project")
    arguments: JsonObject = {
        "paths": [f"{top}/way/a.txt", "src/a.py", f"{top}/project/src/../a.txt"],
        "text": f"{top}/way",
        "out": {"file": f"{top}/way/new", "mode": 1},
        "path": 'JSON: ["x"]',
    }
    verdict = judge(arguments, world, Policy(rewrite="canonical"))
    assert isinstance(verdict, Admitted)
    assert verdict.call.arguments == {
        "paths": [f"{top}/project/a.txt", "src/a.py", f"{top}/project/src/../a.txt"],
        "text": f"{top}/way",
        "out": {"file": f"{top}/project/new", "mode": 1},
        "path": 'JSON: ["x"]',
    }
    assert verdict.call.params["arguments"] is verdict.call.arguments
    verbatim = judge(arguments, world)
    assert isinstance(verbatim, Admitted)
    assert verbatim.call.arguments is arguments


def test_an_operator_decides_about_an_argument_by_hand(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    world = context(share(top / "project"), top / "project")
    ignoring = ToolPolicy(arguments={"/path": Kind.IGNORE, "/word": Kind.PATH})
    guard = compile_tool(None, read_only=True, policy=ignoring)
    assert isinstance(decide(tool_call({"path": "/"}), guard, world), Admitted)
    assert isinstance(decide(tool_call({"word": "/nowhere"}), guard, world), Refused)


def test_the_operators_access_goes_before_the_tools_own_hint() -> None:
    for read_only, access, writes in (
        (True, None, False),
        (False, None, True),
        (True, "write", True),
        (False, "read", False),
    ):
        policy = ToolPolicy(access=access)  # pyright: ignore[reportArgumentType]
        assert compile_tool(None, read_only=read_only, policy=policy).needs_write is writes


class Untouched(LinkReader):
    """A disk that is not to be looked at."""

    def entry(self, path: str) -> Entry | None:
        raise AssertionError(path)

    def target(self, path: str) -> str:
        raise AssertionError(path)


BLIND = CallContext(EMPTY, None, {}, Untouched(), POSIX)


def test_a_call_in_which_nothing_is_judged_is_admitted_without_looking_at_the_disk() -> None:
    guard = compile_tool({}, read_only=True, policy=ToolPolicy(Policy()))
    pathless = Call("tools/call", "t", {"limit": 5}, {"arguments": {"limit": 5}})
    admitted = at_once(pathless, guard, BLIND)
    assert isinstance(admitted, Admitted)
    assert admitted.call is pathless
    off = compile_tool({}, read_only=True, policy=ToolPolicy(Policy(mode=Mode.OFF)))
    call = Call("tools/call", "t", {"path": "/x"}, {})
    assert isinstance(at_once(call, off, BLIND), Admitted)


def test_the_quick_check_admits_only_what_the_guard_admits(tmp_path: Path) -> None:
    plant(tmp_path, "r/f")
    world = context(share(tmp_path / "r"))
    inside: JsonObject = {"path": f"{tmp_path}/r/f"}
    others: list[JsonObject] = [{"path": "/etc/x"}, {"path": 5}, {}, nested(100)]
    for mode in Mode:
        guard = compile_tool({}, read_only=True, policy=ToolPolicy(Policy(mode=mode)))
        for arguments in (inside, *others):
            call = Call("tools/call", "t", arguments, {"arguments": arguments})
            decided = decide(call, guard, world)
            plainly = isinstance(decided, Admitted) and decided.would_refuse is None
            found = at_once(call, guard, world)
            is_final = plainly or (mode is Mode.ENFORCE and arguments == {"path": "/etc/x"})
            assert found == decided or (found is None and not is_final), (mode, arguments)
            if mode is Mode.ENFORCE and arguments is inside:
                assert at_once(call, guard, world, is_current=False) is None


def test_a_refusal_that_the_user_may_be_asked_about_is_not_decided_inline(tmp_path: Path) -> None:
    world, call = context(share(tmp_path)), tool_call({"path": "/etc/x"})
    for policy in (Policy(on_refused="ask"), Policy(mode=Mode.REPORT)):
        guard = compile_tool({}, read_only=True, policy=ToolPolicy(policy))
        assert at_once(call, guard, world) is None


def test_of_several_paths_nothing_is_looked_at_twice(tmp_path: Path) -> None:
    plant(tmp_path, "r/f", "r/a,b")
    roots = share(tmp_path / "r")
    guard = compile_tool({}, read_only=True, policy=DEFAULT)
    plain_check = PlainPathCheck.of(context(roots), (), Policy(), needs_write=False)
    # Only the first is plain, so that the ground and then the judge look at the disk.
    arguments: JsonObject = {"paths": [f"{tmp_path}/r/f", f"{tmp_path}/r/a,b"]}
    disk = RecordingDisk()
    around = replace(context(roots), links=disk)
    call = Call("tools/call", "t", arguments, {})
    assert isinstance(at_once(call, guard, around, plain_check), Admitted)
    assert disk.asked
    assert len(disk.asked) == len(set(disk.asked))


def test_plain_paths_on_their_ground_are_admitted_without_the_surroundings(tmp_path: Path) -> None:
    plant(tmp_path, "r/f")
    roots = share(tmp_path / "r")
    guard = compile_tool({}, read_only=True, policy=DEFAULT)
    around = context(roots)
    plain_check = PlainPathCheck.of(around, (), Policy(), needs_write=False)

    def found(arguments: JsonObject) -> Admitted | Refused | None:
        return at_once(tool_call(arguments), guard, around, plain_check, is_current=False)

    assert isinstance(found({"path": f"{tmp_path}/r/f", "limit": 5}), Admitted)
    for other in ("/etc/x", "f,g", f"{tmp_path}/r/../r/f"):
        assert found({"path": other}) is None
        assert found({"path": f"{tmp_path}/r/f", "to": {"path": other}}) is None


def test_a_resource_is_judged_by_its_uri(tmp_path: Path) -> None:
    world = context(share(tmp_path))
    guard = compile_tool(None, read_only=True, policy=DEFAULT)

    def read(uri: str) -> Admitted | Refused:
        return decide(Call("resources/read", uri, {"uri": uri}, {"uri": uri}), guard, world)

    assert isinstance(read(f"file://{tmp_path}/a"), Admitted)
    assert isinstance(read("memo://notes/1"), Admitted)
    assert isinstance(read("file:///etc/passwd"), Refused)


def nested(depth: int) -> JsonObject:
    value: Json = "x"
    for _ in range(depth):
        value = {"a": value}
    return {"a": value}


def test_arguments_that_are_nested_too_deeply_are_refused() -> None:
    verdict = judge(nested(100), context(EMPTY))
    assert isinstance(verdict, Refused)
    assert verdict.message() == (
        "Access denied: the arguments are nested too deeply or too many to judge"
    )


@pytest.mark.parametrize(
    ("arguments", "admitted"),
    [
        ({"paths": ["{a,b}{c,d}{e,f}{g,h}"] * 40}, True),
        ({"paths": [*["{a,b}{c,d}{e,f}{g,h}"] * 40, "/etc/x"]}, False),
        ({"paths": [f"a/{number}, b" for number in range(400)]}, True),
        ({str(number): "x" for number in range(5000)}, True),
        ({"items": [[0] * 100] * 300}, True),
        ({"paths": ["x"] * 5000}, True),
        ({"command": "cat x " * 20_000}, True),
        ({"command": f"for x in {' '.join('abcdefghi')}; do echo $x {'b' * 900}; done"}, True),
        ({"/a" * 50_000: 1}, True),
    ],
)
def test_a_call_over_the_inline_budget_is_not_decided_inline(
    tmp_path: Path, arguments: JsonObject, admitted: bool
) -> None:
    world = context(share(tmp_path), tmp_path)
    guard = compile_tool({}, read_only=True, policy=DEFAULT)
    call = tool_call(arguments)
    assert decide_within_inline_budget(call, guard, world) is None
    assert at_once(call, guard, world) is None
    assert isinstance(decide(call, guard, world), Admitted) is admitted


@pytest.mark.parametrize("mode", Mode)
def test_an_inline_verdict_equals_the_full_verdict(tmp_path: Path, mode: Mode) -> None:
    world = context(share(tmp_path), tmp_path)
    guard = compile_tool({}, read_only=True, policy=ToolPolicy(Policy(mode=mode)))
    rows: list[Json] = [[0]] * 9
    calls: list[JsonObject] = [{"path": "a"}, {"path": "/etc/x"}, nested(100), {"items": rows}]
    for arguments in calls:
        call = tool_call(arguments)
        assert decide_within_inline_budget(call, guard, world) == decide(call, guard, world)


def test_a_call_that_cannot_be_rewritten_within_the_budget_is_refused(tmp_path: Path) -> None:
    world = context(share(tmp_path), tmp_path)
    call = tool_call({"path": f"{tmp_path}/a,b"})
    policy = ToolPolicy(Policy(rewrite="canonical"))
    plain, rewriting = (
        compile_tool({}, read_only=True, policy=policy) for policy in (DEFAULT, policy)
    )
    assert isinstance(decide(call, rewriting, world), Admitted)
    # It has three readings, and is read twice if it is to be rewritten.
    budget = Budget(search=100, readings=5, effort=10_000)
    assert isinstance(decide(call, plain, world, budget), Admitted)
    assert isinstance(decide(call, rewriting, world, budget), Refused)


class BrokenLinkReader(LinkReader):
    def entry(self, path: str) -> Entry | None:
        raise RuntimeError(path)

    def target(self, path: str) -> str:
        raise RuntimeError(path)


def test_our_own_mistake_is_a_refusal() -> None:
    verdict = judge({"path": "/a"}, CallContext(EMPTY, None, {}, BrokenLinkReader(), POSIX))
    assert isinstance(verdict, Refused)
    assert verdict.message() == "Access denied: the arguments could not be judged"


def test_explain_shows_every_reading_and_its_resolved_path(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    world = context(share(top / "project"), top / "project")
    guard: ToolGuard = compile_tool(None, read_only=True, policy=DEFAULT)
    (judged,) = explain(tool_call({"path": "%2e%2e", "text": "x"}), guard, world)
    assert (judged.pointer, judged.kind, judged.value) == ("/path", Kind.PATH, "%2e%2e")
    assert judged.why == "'path' is a word for a path"
    assert [(read.reading, read.how, read.leads_to) for read in judged.readings] == [
        ("%2e%2e", "as given", f"{top}/project/%2e%2e"),
        ("..", "percent-decoded", str(top)),
        (str(top), "percent-decoded, '..' removed first", str(top)),
    ]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["path", "files", "glob", "src", "command", "args", "text", "x", "uri", "$ref", "properties"]
)
BITS = st.sampled_from(
    [
        *"/ .. ~ $HOME ${ %2e \\ file: // a , { } = - @ [ \" ' ` : * etc sqlite:".split(),  # noqa: SIM905 - quotes
        *" \x00\u200b\uff0f\ud800",
    ]
)
TEXTS = st.lists(BITS, max_size=12).map("".join)
ARGUMENTS = st.dictionaries(
    st.one_of(KEYS, TEXTS), st.one_of(JSON, TEXTS, st.lists(TEXTS)), max_size=4
)


@given(arguments=ARGUMENTS, schema=JSON)
def test_any_json_yields_a_verdict(arguments: JsonObject, schema: Json) -> None:
    here = CATALOGUE.parent
    world = context(share(here), here, env={"HOME": str(here)})
    guard = compile_tool(schema, read_only=True, policy=DEFAULT)
    verdict = decide(tool_call(arguments), guard, world)
    if isinstance(verdict, Refused):
        assert verdict.reason != "the arguments could not be judged"
    try:
        explain(tool_call(arguments), guard, world)
    except PathError:
        assert isinstance(verdict, Refused)


@pytest.mark.parametrize("command", ["ls \0/*", ["\0/*"]])
def test_a_pattern_below_a_folder_that_cannot_exist_is_explained(
    tmp_path: Path, command: Json
) -> None:
    guard = compile_tool(None, read_only=True, policy=DEFAULT)
    world = context(share(tmp_path), tmp_path)
    judged = explain(tool_call({"command": command}), guard, world)
    objections = [reading.objection for one in judged for reading in one.readings]
    assert "it contains a character that no path can have" in objections


@pytest.mark.parametrize(
    ("pattern", "admitted"),
    [
        *(("-f/etc/passwd", False), (" --file=../x", False), ("/etc/passwd", True), ("-i", True)),
        *((["-f", "/etc/passwd"], False), (["a", "--file=../x"], False)),
        *((["/etc/passwd", "../x"], True), (["-i", "a"], True)),
    ],
)
def test_an_option_in_the_place_of_a_searched_text_is_judged(
    tmp_path: Path, pattern: Json, *, admitted: bool
) -> None:
    schema: Json = {"properties": {"pattern": {}, "path": {"type": "string"}}}
    guard = compile_tool(schema, read_only=True, policy=DEFAULT, name="grep")
    call = tool_call({"pattern": pattern, "path": "."})
    verdict = decide(call, guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


_OBJECT: Json = {"anyOf": [{"type": "object"}, {"type": "null"}]}
_DOCUMENT: Json = {"type": "object", "description": "As the query of db.collection.find()"}
_LIST: Json = {"type": "array", "items": {"type": "string"}}
_TEXT: Json = {"type": "string"}
_REGEX: Json = {"type": "string", "description": "The search pattern (regex by default)"}
_TO_SHELL: Json = {"type": "string", "description": "Message to send to the process"}
_COPIED: Json = {"type": "string", "description": "The notebook to copy from"}
_PORT: Json = {"type": "string", "description": "Serial port path, such as COM3"}
_LOCAL: Json = {"type": "string", "description": "A local path"}
_WORDS: Json = {"anyOf": [_LIST, _TEXT]}


@pytest.mark.parametrize(
    ("tool", "key", "schema", "value", "admitted"),
    [
        ("pods_exec", "command", _LIST, ["cat", "/etc/hosts"], True),
        ("exec_in_pod", "command", _TEXT, "cat /etc/hosts", True),
        ("exec_in_pod", "command", _TEXT, "ls; cat /etc/hosts", False),
        ("exec_in_pod", "command", _TEXT, "ls > /etc/x", False),
        ("exec_in_pod", "command", _TEXT, "docker cp /etc/hosts c:/x", False),
        ("exec_in_pod", "command", _TEXT, "sudo podman run --env-file /etc/hosts x", False),
        ("exec_in_pod", "command", _TEXT, "-v /etc:/x alpine", False),
        ("exec_in_pod", "command", _TEXT, "cat /etc/docker/daemon.json", True),
        ("exec_in_pod", "command", _TEXT, '"; cat /etc/hosts; "', False),
        ("exec_in_pod", "command", _TEXT, "ls\ncat /etc/hosts", False),
        ("exec_in_pod", "command", _WORDS, ["cat", "/etc/hosts"], False),
        ("run_playbook", "extra_vars", _OBJECT, {"app_dir": "/etc", "log": "../x"}, True),
        ("run_playbook", "extra_vars", _WORDS, "@/etc/hosts", False),
        ("drive_list", "folder_path", _TEXT, "/Documents/Reports", True),
        ("drive_list", "folder_path", _TEXT, "/etc", False),
        ("drive_upload", "local_path", _TEXT, "/new/x", False),
        ("call", "args", _OBJECT, {"topic": "/etc hosts"}, True),
        ("call", "args", _OBJECT, {"topic": "/etc/hosts"}, False),
        ("call", "args", _OBJECT, {"0": "cat /etc/hosts"}, False),
        ("call", "args", _OBJECT, {"--out": "a /etc/hosts"}, False),
        ("call", "args", _OBJECT, {"x": "../x"}, False),
        ("call", "config", _OBJECT, {"url": "/users/{id}", "baseUrl": "/api"}, True),
        ("call", "config", _OBJECT, {"url": "/etc/hosts"}, False),
        ("call", "config", _OBJECT, {"x": "/users/1"}, False),
        ("call", "path", _OBJECT, {"url": "/users/1"}, False),
        ("exec_in_pod", "files", _LIST, ["/etc/hosts"], False),
        ("create_container", "environment", _OBJECT, {"HOME": "/root", "X": "../x"}, True),
        ("create_container", "environment", _OBJECT, {"HOME": "file:///etc/passwd"}, False),
        ("create_container", "volumes", _OBJECT, {"/etc": {"bind": "/x"}}, False),
        ("list_containers", "command", _LIST, ["cat", "/etc/hosts"], False),
        ("compose_run_container", "env", _OBJECT, {"COMPOSE_FILE": "/etc/hosts"}, False),
        ("start_process", "env", _OBJECT, {"HOME": "/root"}, False),
        ("helm_install", "values", _OBJECT, {"hosts": [{"paths": [{"path": "/"}]}]}, True),
        ("helm_install", "values", _OBJECT, {"persistence": {"mountPath": "/data"}}, True),
        ("helm_install", "values", _OBJECT, "/etc/hosts", False),
        ("helm_install", "set_string", _LIST, ["mountPath=/etc"], True),
        ("helm_install", "set_file", _LIST, ["x=/etc/hosts"], False),
        ("helm_install", "values_file", _TEXT, "/etc/hosts", False),
        ("kubectl_patch", "patch", _OBJECT, {"spec": {"httpGet": {"path": "/etc"}}}, True),
        ("kubectl_generic", "args", _LIST, ["-f", "/etc/hosts"], False),
        ("find", "filter", _DOCUMENT, {"path": "/etc", "url": {"$ne": "../x"}}, True),
        ("find", "filter", _DOCUMENT, "/etc/hosts", False),
        ("find", "filter", _OBJECT, {"path": "/etc"}, False),
    ],
)
def test_what_goes_to_a_cluster_a_container_or_a_database_is_data(  # noqa: PLR0913 - one case
    tmp_path: Path, tool: str, key: str, schema: Json, value: Json, *, admitted: bool
) -> None:
    guard = compile_tool({"properties": {key: schema}}, read_only=False, policy=DEFAULT, name=tool)
    verdict = decide(tool_call({key: value}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


_ANY: Json = {}
_ROWS: Json = {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}
_UPLOADED: Json = {"type": "object", "description": "Form fields; a value may be a file"}
_OF_FILE: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
_PLACES_IN_IT: Json = {"path": "/etc/hosts", "x": ["../x"]}


@pytest.mark.parametrize(
    ("tool", "beside", "key", "schema", "value", "admitted"),
    [
        ("http_request", "url", "body", _OBJECT, _PLACES_IN_IT, True),
        ("http_request", "url", "body", _ANY, _PLACES_IN_IT, True),
        ("call_api", "endpoint", "body", _OBJECT, _PLACES_IN_IT, True),
        ("http_request", "url", "json", _OBJECT, _PLACES_IN_IT, True),
        ("send", "url", "headers", _OBJECT, {"Referer": "/etc"}, True),
        ("http_request", "url", "body", _OBJECT, {"path": "file:///etc/hosts"}, False),
        ("http_request", "url", "body", _UPLOADED, _PLACES_IN_IT, False),
        ("http_request", "url", "body", _OF_FILE, _PLACES_IN_IT, False),
        ("make_request", "target", "body", _OBJECT, _PLACES_IN_IT, False),
        ("http_request", "target", "body", _OBJECT, _PLACES_IN_IT, True),
        ("http_request", "url", "files", _OBJECT, _PLACES_IN_IT, False),
        ("http_request", "url", "data", _ANY, "/etc/hosts", False),
        ("convert", "url", "data", _OBJECT, _PLACES_IN_IT, False),
        ("query", "sql", "params", _ROWS, ["/etc/hosts"], True),
        ("run", "sql", "args", _LIST, ["/etc/hosts"], True),
        ("read_neo4j_cypher", "query", "params", _OBJECT, _PLACES_IN_IT, True),
        ("search_files", "query", "params", _OBJECT, _PLACES_IN_IT, False),
        ("query", "sql", "params", _WORDS, "/etc/hosts", False),
        ("graphql", "query", "variables", _OBJECT, _PLACES_IN_IT, True),
        ("graphql", "query", "variables", _TEXT, '{"path": "/etc/hosts"}', True),
        ("graphql", "query", "variables", _TEXT, "/etc/hosts", False),
        ("find", "collection", "filter", _OBJECT, _PLACES_IN_IT, True),
        ("insert", "table", "rows", _LIST, [_PLACES_IN_IT], True),
        ("insert", "table", "data", _WORDS, "/etc/hosts", False),
        ("write", "sheetName", "values", _LIST, [["/etc/hosts", "../x"]], True),
        ("write", "sheet_name", "data", _WORDS, "/etc/hosts", False),
        ("write", "spreadsheet_id", "values", _WORDS, [["/etc/hosts", "../x"]], True),
        ("write", "spreadsheet_id", "values", _WORDS, '[["/etc/hosts"]]', True),
        ("write", "spreadsheet_id", "values", _WORDS, "/etc/hosts", False),
        ("append_rows", "table_id", "values", _WORDS, [["/etc/hosts"]], True),
        ("add_table", "rows", "data", _LIST, [["/etc/hosts", "~"]], True),
        ("create_table", "index", "table_data", _LIST, [["/etc/hosts"]], True),
        ("add_chart", "rows", "data", _LIST, [["/etc/hosts"]], False),
        ("write", "spreadsheetId", "data", _LIST, [["/etc/hosts", "../x"]], True),
        ("createSheet", "name", "data", _LIST, [["/etc/hosts", "../x"]], True),
        ("create", "name", "data", _LIST, [["/etc/hosts", "../x"]], False),
        ("create_index", "collection", "definition", _LIST, [{"keys": {"path": 1}}], True),
        ("load", "table", "files", _LIST, ["/etc/hosts"], False),
        ("search", "index", "query_body", _OBJECT, _PLACES_IN_IT, True),
        ("docker_exec", "container_id", "command", _LIST, ["cat", "/etc/hosts"], True),
        ("docker_exec", "container_id", "command", _TEXT, "cat /etc/hosts", True),
        ("docker_exec", "container_id", "command", _TEXT, "ls | tee /etc/hosts", False),
        ("compose_exec", "service", "command", _LIST, ["cat", "/etc/hosts"], True),
        ("compose_exec", "service", "command", _TEXT, "cat /etc/hosts", True),
        ("exec", "service", "command", _LIST, ["cat", "/etc/hosts"], False),
        ("list", "drive_id", "path", _TEXT, "/Documents", True),
        ("docker_cp", "container_id", "command", _LIST, ["cat", "/etc/hosts"], False),
        ("redis_restore", "ttl", "path", _TEXT, "/etc/hosts", False),
        ("kv_set", "ttl", "key", _TEXT, "/etc/hosts", False),
        ("redis_set", "ttl", "key", _TEXT, "file:///etc/hosts", False),
        ("search", "file_pattern", "pattern", _TEXT, r"from '\.\./", True),
        ("search", "exclude_pattern", "pattern", _TEXT, r"\.\./", False),
        ("search", "file_pattern", "pattern", _TEXT, "-f/etc/hosts", False),
        ("search", "file_pattern", "pattern", _REGEX, "-f/etc/hosts", False),
        ("search", "file_pattern", "pattern", _REGEX, r"-> \w+", True),
        ("grep", "path", "regex", _TEXT, "--file=/etc/hosts", False),
        ("search_code", "path", "query", _TEXT, "-f../x", False),
        ("search_code", "path", "query", _TEXT, "--out x", True),
        ("run_script", "interpreter", "script", _TEXT, "cat /etc/hosts", False),
        ("run_script", "interpreter", "script", _TEXT, "npm ci\nnpm test", True),
        ("run_script", "shell", "script", _TEXT, "cat /etc/hosts", False),
        ("run_bash", "cwd", "code", _TEXT, "cat ../x", False),
        ("execute_shell", "cwd", "code", _TEXT, "cat ../x", False),
        ("run_python", "cwd", "code", _TEXT, "cat ../x", True),
        ("run", "cwd", "explanation", _TEXT, "/etc/hosts", True),
        ("run", "cwd", "details", _TEXT, "../x", True),
        ("tmux_send_keys", "enter", "text", _TEXT, "cat /etc/hosts", False),
        ("tmux_send", "enter", "content", _TEXT, "cat /etc/hosts", False),
        ("write_to_terminal", "enter", "data", _TEXT, "cat /etc/hosts", False),
        ("write_file", "process_templates", "content", _TEXT, "cat /etc/hosts", True),
        ("write_to_terminal", "enter", "data", _TEXT, "Look at /etc/hosts please", True),
        ("send", "enter", "message", _TO_SHELL, "cat /etc/hosts", False),
        ("tmux_send_keys", "enter", "text", _TEXT, f"cat /etc/hosts; {'echo a; ' * 999}", False),
        ("tmux_send_keys", "enter", "text", _TEXT, "echo a; " * 999, True),
        ("send_keys", "target_pane", "text", _TEXT, "cat ../x", False),
        ("send_keys", "target_pane", "text", _TEXT, "npm run build", True),
        ("send_keys", "selector", "text", _TEXT, "cat /etc/hosts", True),
        ("write_note", "folder", "title", _TEXT, "../../x", False),
        ("write_note", "directory", "note_title", _TEXT, "/etc/x", False),
        ("write_note", "folderPath", "title", _TEXT, "../../x", False),
        ("write_note", "folder", "title", _TEXT, "CI/CD: a - b", True),
        ("write_note", "folder_id", "title", _TEXT, "../../x", True),
        ("add_cell", "cell_type", "source", _TEXT, "pd.read_csv('../x.csv')", True),
        ("overwrite_cell", "cell_index", "cell_source", _TEXT, "open('/etc/hosts')", True),
        ("insert_cell", "cell_id", "source", _COPIED, "/etc/hosts", False),
        ("insert_image", "cell", "source", _TEXT, "/etc/hosts", False),
        ("flash", "firmware", "port", _TEXT, "/dev/ttyUSB0", True),
        ("flash", "firmware", "port", _TEXT, "/dev/sda", False),
        ("flash", "port", "firmware", _TEXT, "/dev/ttyUSB0", False),
        ("open", "baud_rate", "port", _PORT, "/dev/ttyUSB0", True),
        ("open", "baud_rate", "port", _PORT, "/dev/ttyUSB0/../sda", False),
        ("open", "baud_rate", "port", _PORT, "/dev/sda", False),
        ("open", "baud_rate", "port", _PORT, "/etc/hosts", False),
        ("open", "baud_rate", "file", _PORT, "/dev/ttyUSB0", False),
        ("login", "url", "password", _TEXT, "~x/$HOME", True),
        ("ssh_exec", "connection", "command", _TEXT, "cat /etc/hosts", True),
        ("ssh_exec", "connection", "command", _TEXT, "cat a; cat /etc/hosts", False),
        ("ssh_exec", "connection", "command", _TEXT, "cat a > /etc/hosts", False),
        ("exec", "connection", "command", _TEXT, "cat /etc/hosts", False),
        ("adb_shell", "device", "command", _TEXT, "cat /proc/meminfo", True),
        ("adb_push", "device", "command", _TEXT, "push /etc/hosts", False),
        ("adb_shell", "device", "command", _TEXT, "adb push /etc/hosts /sdcard", False),
        ("adb_shell", "device", "command", _TEXT, "push /etc/hosts /sdcard", False),
        ("ssh_exec", "connection", "command", _TEXT, "/etc/docker/run x", True),
        ("ssh_exec", "connection", "command", _TEXT, "docker-compose -f /etc/hosts up", False),
        ("ssh_exec", "connection", "command", _TEXT, "time docker cp /etc/hosts x:/x", False),
        ("ssh_exec", "connection", "command", _TEXT, "env -i oc cp /etc/hosts x:/x", False),
        ("ssh_exec", "connection", "command", _TEXT, "me@web1 -F /etc/hosts", False),
        ("helm_install", "chart", "value", {"type": "array"}, ["/etc/hosts"], False),
        ("ssh_exec", "connection", "command", _TEXT, "scp /etc/hosts web1:/x", False),
        ("ssh_exec", "connection", "command", _TEXT, "sudo /usr/bin/ssh -F /etc/hosts x", False),
        ("run_shell", "cwd", "lines", {"type": "array"}, ["cat /etc/hosts"], False),
        ("run_shell", "cwd", "lines", {"type": "array"}, ["npm ci", "npm test"], True),
        ("set_breakpoint", "file", "condition", _TEXT, "path == '/etc/hosts'", True),
        ("wait", "timeout", "condition", _TEXT, "/etc/hosts", False),
        ("http_request", "method", "url", _TEXT, "{{base}}/etc/hosts", True),
        ("http_request", "method", "url", _TEXT, "{{base}}/../x", False),
        ("http_request", "method", "url", _TEXT, "/etc/hosts", False),
        ("write_csv", "path", "data", {"type": "array"}, [["a", "/etc/hosts"]], True),
        ("merge_csv", "path", "data", {"type": "array"}, ["/etc/hosts"], False),
        ("plot_csv", "kind", "data", _OBJECT, {"path": "/etc/hosts"}, False),
        ("godot_node", "scene", "node_path", _TEXT, "/etc/hosts", True),
        ("node", "scene", "node_path", _TEXT, "/etc/hosts", False),
        ("login", "url", "password_file", _TEXT, "/etc/hosts", False),
        ("ssh_exec", "server", "cwd", _TEXT, "/etc", True),
        ("ssh_exec", "server", "cwd", _TEXT, "../../x", False),
        ("ssh_exec", "server", "cwd", _TEXT, "file:///etc", False),
        ("ssh_exec", "server", "cwd", _LOCAL, "/etc", False),
        ("ssh_exec", "use_ssh", "cwd", _TEXT, "/etc", False),
        ("ssh_sync", "server", "cwd", _TEXT, "/etc", False),
        ("git_exec_over_ssh", "server", "cwd", _TEXT, "/etc", False),
        ("exec", "container_id", "workdir", _TEXT, "/etc", False),
        ("ssh_tail", "server", "file", _TEXT, "/etc/hosts", True),
        ("ssh_tail", "server", "file", _LOCAL, "/etc/hosts", False),
        ("ssh_read_local", "server", "file", _TEXT, "/etc/hosts", False),
        ("ssh_read_upload", "server", "path", _TEXT, "/etc/hosts", False),
        ("ssh_tail", "key", "file", _TEXT, "/etc/hosts", False),
        ("ssh_add", "server", "file", _TEXT, "/etc/hosts", False),
        ("ssh_read", "server", "paths", {"type": "array"}, ["/etc/hosts"], False),
        ("add_node", "scene_path", "node_path", _TEXT, "/etc/hosts", True),
        ("add_node", "scenePath", "parent_path", _TEXT, "/etc/hosts", False),
        ("add_node", "scene_path", "node_path", _LOCAL, "/etc/hosts", False),
        ("comment", "line", "suggestion", _TEXT, "open('/etc/hosts')", True),
        ("comment", "line", "suggestion_file", _TEXT, "/etc/hosts", False),
        ("add_slide", "title", "bullets", {"type": "array"}, ["/etc/hosts is read"], True),
        ("add_slide", "title", "bullet_image", _TEXT, "/etc/hosts", False),
        ("open_port", "name", "source", _TEXT, "::/0", True),
        ("open_port", "name", "sources", {"type": "array"}, ["0.0.0.0/0", "fe80::/10"], True),
        ("open_port", "name", "destination", _TEXT, "10.0.0.0/8, ::/0", True),
        ("open_port", "name", "source", _TEXT, "a::/etc", False),
        ("open_port", "name", "source", _TEXT, "::/0,/etc", False),
        ("open_port", "name", "source", _TEXT, "::/0/../etc", False),
    ],
)
def test_what_goes_elsewhere_by_the_arguments_beside_it_is_data(  # noqa: PLR0913 - one case
    tmp_path: Path, *, tool: str, beside: str, key: str, schema: Json, value: Json, admitted: bool
) -> None:
    declared: Json = {"properties": {beside: _TEXT, key: schema}, "required": [beside]}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name=tool)
    verdict = decide(tool_call({key: value}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


@pytest.mark.parametrize(
    ("interpreter", "admitted"),
    [
        ("python3", True),
        ("python -u", True),
        ("bash -x", False),
        ("Python", True),
        ("ipython", True),
        ("node", True),
        ("bash", False),
        ("python3;sh", False),
        (None, False),
    ],
)
def test_a_script_is_no_command_for_an_interpreter_that_is_no_shell(
    tmp_path: Path, interpreter: Json, *, admitted: bool
) -> None:
    declared: Json = {"properties": {"interpreter": _TEXT, "script": _TEXT}}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name="run_script")
    call = tool_call({"interpreter": interpreter, "script": "print(1 / 2)"})
    verdict = decide(call, guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


@pytest.mark.parametrize(
    ("tool", "key", "language", "admitted"),
    [
        ("run-code", "languageId", "shellscript", False),
        ("execute_code", "language", "bash", False),
        ("execute_code", "language", "Python", True),
        ("run_code", "lang", "javascript", True),
        ("highlight_code", "language", "bash", True),
    ],
)
def test_code_is_a_command_if_the_call_runs_it_in_a_shell(
    tmp_path: Path, tool: str, key: str, language: str, *, admitted: bool
) -> None:
    declared: Json = {"properties": {key: _TEXT, "code": _TEXT}}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name=tool)
    call = tool_call({key: language, "code": "cat /etc/hosts"})
    verdict = decide(call, guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


def test_a_container_that_need_not_be_named_may_be_this_machine(tmp_path: Path) -> None:
    declared: Json = {"properties": {"container_id": _TEXT, "command": _LIST}}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name="docker_exec")
    call = tool_call({"command": ["cat", "/etc/hosts"]})
    assert isinstance(decide(call, guard, context(share(tmp_path), tmp_path)), Refused)


@pytest.mark.parametrize(
    ("value", "admitted"),
    [
        (12, True),
        ("acme/web", True),
        ("/Work/Plans", True),
        ("/etc/hosts", False),
        ("../x", False),
        ("leak", False),
    ],
)
@pytest.mark.parametrize("key", ["parent", "parent_id"])
def test_an_id_or_a_path_may_be_a_number(
    tmp_path: Path, key: str, value: Json, *, admitted: bool
) -> None:
    (tmp_path / "leak").symlink_to("/etc/hosts")
    schema: Json = {"properties": {key: {"description": "The ID or full path of the folder"}}}
    guard = compile_tool(schema, read_only=False, policy=DEFAULT)
    verdict = decide(tool_call({key: value}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


_FILE_OF_REPOSITORY: Json = {"type": "string", "description": "The path of the file"}
_SAVED: Json = {"type": "string", "description": "Where to save the file"}


@pytest.mark.parametrize(
    ("beside", "key", "schema", "value", "admitted"),
    [
        ("repositoryId", "path", _FILE_OF_REPOSITORY, "/src/app.ts", True),
        ("repositoryId", "path", _FILE_OF_REPOSITORY, "/etc/hosts", False),
        ("repositoryId", "path", _FILE_OF_REPOSITORY, "../x", False),
        ("repositoryId", "path", _FILE_OF_REPOSITORY, "~/x", False),
        ("repositoryId", "changes", {"items": {"properties": {"path": {}}}}, "/src/a.ts", True),
        ("wikiIdentifier", "pagePath", _TEXT, "/Home/Set up", True),
        ("owner repo", "path", _TEXT, "/src/app.ts", True),
        ("repo", "path", _TEXT, "/src/app.ts", False),
        ("repositoryId", "local_path", _TEXT, "/src/app.ts", False),
        ("repositoryId", "outputPath", _TEXT, "/src/app.ts", False),
        ("repositoryId", "path", _SAVED, "/src/app.ts", False),
    ],
)
def test_a_path_beside_a_repositorys_id_may_be_absolute_there(  # noqa: PLR0913 - one case
    tmp_path: Path, *, beside: str, key: str, schema: JsonObject, value: Json, admitted: bool
) -> None:
    declared: Json = {"properties": {**dict.fromkeys(beside.split(), _TEXT), key: schema}}
    given: Json = [{"path": value}] if "items" in schema else value
    guard = compile_tool(declared, read_only=False, policy=DEFAULT)
    verdict = decide(tool_call({key: given}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


@pytest.mark.parametrize("tool", ["clone_repository", "download_file", "checkout"])
def test_a_path_of_a_tool_that_fetches_a_repository_is_one_here(tmp_path: Path, tool: str) -> None:
    declared: Json = {"properties": {"owner": _TEXT, "repo": _TEXT, "path": _TEXT}}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name=tool)
    verdict = decide(tool_call({"path": "/src/web"}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Refused)


_IMAGE = "cat > Dockerfile <<'E'\nCOPY --from=b /app /usr/share/x\nE\n"
_LINES = "cat > x.ts <<'E'\nimport a from '../../lib'\nconst c = \"/etc/hosts\"\nE"


@pytest.mark.parametrize(
    ("tool", "key", "described", "beside", "command", "admitted"),
    [
        ("bash", "command", "", "cwd", _LINES, True),
        ("run_command", "command", "The bash command to run", "cwd", _LINES, True),
        ("run_command", "bash_command", "", "cwd", _LINES, True),
        ("start_process", "command", "", "shell", _LINES, True),
        ("bash", "command", "", "cwd", f"{_LINES}\nchmod +x x.ts && ls", True),
        ("bash", "command", "", "cwd", f"{_IMAGE}docker build -t x .", True),
        ("bash", "command", "", "cwd", f"{_IMAGE}sh Dockerfile", False),
        ("bash", "command", "", "cwd", f"{_IMAGE}docker build -f /etc/x .", False),
        ("bash", "command", "", "cwd", f"{_LINES}\nsh x.ts", False),
        ("bash", "command", "", "cwd", f"{_LINES}\ncat ../x", False),
        ("bash", "command", "", "cwd", _LINES.replace("> x.ts", "> ../x.ts"), False),
        ("bash", "command", "", "cwd", _LINES.replace("cat", "xargs cat"), False),
        ("bash", "command", "", "cwd", f"xargs cat {_LINES[6:]}", False),
        (
            "bash",
            "command",
            "",
            "cwd",
            _LINES.replace("'E'", "E").replace("/etc", "$(ls /)"),
            False,
        ),
        ("bash", "args", "", "cwd", _LINES, False),
        ("run_command", "command", "Shell command", "cwd", _LINES, False),
        ("run_command", "command", "A command; not for bash", "cwd", _LINES, False),
        ("run_command", "command", "", "use_shell", _LINES, False),
    ],
)
def test_lines_that_a_shell_writes_to_a_file_are_no_paths(  # noqa: PLR0913 - one case
    tmp_path: Path,
    *,
    tool: str,
    key: str,
    described: str,
    beside: str,
    command: str,
    admitted: bool,
) -> None:
    of_key: Json = {"type": "string", "description": described}
    declared: Json = {"properties": {key: of_key, beside: _TEXT}}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name=tool)
    verdict = decide(tool_call({key: command}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


@pytest.mark.parametrize(
    ("shell", "admitted"),
    [
        ({"type": "boolean"}, False),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [_TEXT, {"type": "null"}], "default": None}, True),
        ({"$ref": "#/$defs/Shell"}, True),
        ({"type": ["boolean", "string"]}, False),
        ({"type": "array", "items": _TEXT}, False),
    ],
)
def test_a_program_without_a_shell_may_open_the_lines_of_a_command(
    tmp_path: Path, shell: JsonObject, *, admitted: bool
) -> None:
    declared: Json = {"properties": {"command": _TEXT, "shell": shell}, "$defs": {"Shell": _TEXT}}
    guard = compile_tool(declared, read_only=False, policy=DEFAULT, name="run_command")
    verdict = decide(tool_call({"command": _LINES}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


def test_an_empty_name_in_an_object_of_files_is_judged() -> None:
    here = CATALOGUE.parent
    guard = compile_tool(None, read_only=True, policy=DEFAULT)
    verdict = decide(tool_call({"files": {"": None}}), guard, context(share(here), here))
    assert isinstance(verdict, Refused)
    assert verdict.reason == "an empty path names nothing"


@pytest.mark.parametrize(
    ("arguments", "is_admitted"),
    [
        ({"files": [{"patch": OUTSIDE_PATCH}]}, False),
        ({"file": {"name": "a.txt", "diff": OUTSIDE_PATCH}}, False),
        ({"files": {"fix.patch": OUTSIDE_PATCH}}, True),
        ({"files": [{"content": OUTSIDE_PATCH}]}, True),
    ],
)
def test_a_patch_in_an_object_of_files_is_judged(
    arguments: JsonObject, *, is_admitted: bool
) -> None:
    here = CATALOGUE.parent
    guard = compile_tool(None, read_only=False, policy=DEFAULT)
    verdict = decide(tool_call(arguments), guard, context(share(here), here))
    assert isinstance(verdict, Admitted) is is_admitted


@pytest.mark.parametrize(
    ("arguments", "is_admitted"),
    [
        ({"files": {"/no-such": "a"}}, False),
        ({"files": {"new.txt": "a"}}, True),
        ({"paths": {"/users": {"get": {}}}}, True),
        ({"profile": {"/x": 1}}, True),
    ],
)
def test_a_new_file_at_the_top_is_judged_as_the_key_of_files(
    arguments: JsonObject, *, is_admitted: bool
) -> None:
    here = CATALOGUE.parent
    guard = compile_tool(None, read_only=False, policy=DEFAULT)
    verdict = decide(tool_call(arguments), guard, context(share(here), here))
    assert isinstance(verdict, Admitted) is is_admitted


# `make quick`, which tries few examples, has shorter texts too.
MANY = 60_000 if settings().max_examples >= 100 else 20_000
HOSTILE = {
    "spaces before a second line": "-" + " " * MANY + "\nX",
    "schemes": "file:" * MANY + " x",
    "no scheme after all": "a" * MANY + " file:",
    "colons": "a:" * MANY,
    "escaped quotes": '"' + '\\"' * MANY,
    "half open quotes": "\"'\\" * MANY,
    "flags": "-a" * MANY + " x",
    "braces": "{," * MANY,
    "open braces": "{" * MANY,
    "open lists": "[1," * MANY,
    "quotes in a list": '["' + '", "' * MANY,
    "comments before a list": "/*" * MANY + "[",
    "a variable": "${" + "a" * MANY,
    "variables": "$HOME" * MANY,
    "escapes of escapes": "%25" * MANY,
    "up": "../" * MANY,
    "up and down": "a/../" * MANY,
    "separators": "/" * MANY,
    "dots": "./" * MANY,
    "spaces": " " * MANY + "/etc",
    "marks": "a" + "\u0301\u0327" * MANY,
    "lists": "/a," * MANY,
    "homes": "~" * MANY,
    "digits": '{"a": ' + "1" * MANY + "}",
    # A word that is longer is refused at once.
    "brackets at the top": "ls /" + "[" * 15_000,
    "brackets with letters": "ls /" + "[a" * 7000,
    "classes that are not closed": "ls ." + "[:" * 4000,
    "a sequence that is not closed": "ls a{" + "." * 15_000,
}


@pytest.mark.long
@pytest.mark.usefixtures("half_a_minute")  # growing with the square, one would take minutes
@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("key", ["path", "pattern", "source", "foo", "text", "command"])
def test_the_time_grows_no_faster_than_the_text(tmp_path: Path, key: str, value: str) -> None:
    judge({key: value}, context(share(tmp_path), tmp_path, env={"HOME": "/h"}))
    judge({key: [value], value: ""}, context(share(tmp_path), tmp_path, env={"HOME": "/h"}))


@pytest.mark.parametrize(("last", "is_admitted"), [("f100", True), ("leak", False)])
def test_the_values_of_a_loop_are_only_tried_where_it_uses_them(
    tmp_path: Path, last: str, *, is_admitted: bool
) -> None:
    project = plant(tmp_path, "secret", "project/src/leak => ../../secret") / "project"
    names = " ".join((*(f"f{n}" for n in range(100)), last))
    command = f"for f in {names}; do cat src/$f; done\n" + "echo all is well && ls src\n" * 100
    small = replace(FULL_BUDGET, effort=100_000)
    guard = compile_tool(None, read_only=False, policy=DEFAULT)
    here = context(share(project), project)
    verdict = decide(tool_call({"command": command}), guard, here, small)
    assert isinstance(verdict, Admitted) is is_admitted


@pytest.fixture(scope="module")
def many_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plant 256 folders, once: to make and to remove them takes longer than to judge."""
    folders = (f"{n}/a/" for n in range(256))
    return plant(tmp_path_factory.mktemp("many"), *folders, f"0/l => {'a/../' * 700}m")


@pytest.mark.long
@pytest.mark.usefixtures("half_a_minute")  # each refused one would take longer
@pytest.mark.parametrize(
    ("roots", "paths", "refused"),
    [
        (256, [f"a/b/c{n}" for n in range(10_000)], True),
        (256, [f"../{n}/x" for n in range(10_000)], True),
        (256, ["a/../" * 800 + f"x{n}" for n in range(7000)], True),
        (256, ["{a,b}/{c,d}/{e,f}" + f"/{n}" for n in range(10_000)], True),
        (1, ["l"] * 100_000, True),
        (256, [f"a/b/c{n}" for n in range(50)], False),
        (5, [f"a/b/c{n}" for n in range(2000)], False),
    ],
    ids=lambda value: str(value)[:16],
)
def test_one_call_has_no_more_than_its_share_of_the_hub(
    many_folders: Path, roots: int, paths: list[str], *, refused: bool
) -> None:
    top = many_folders
    shared = share(*(top / f"{n}" for n in range(roots)))
    for policy in (Policy(), Policy(deny=DenyPatterns(("*.env",)))):
        verdict = judge({"paths": cast("list[Json]", paths)}, context(shared, top / "0"), policy)
        assert isinstance(verdict, Refused) is refused
        if isinstance(verdict, Refused):
            assert verdict.reason in {
                "the call names too many paths to judge for these roots",
                "there is too much to judge",
            }


@pytest.mark.long
@pytest.mark.parametrize("key", ["path", "source", "thing"])
def test_no_call_asks_the_disk_without_end(many_folders: Path, key: str) -> None:
    top = many_folders
    shared = share(*(top / f"{n}" for n in range(256)))
    names: list[Json] = [f"{n}/x" for n in range(1000)]
    disk = RecordingDisk()
    verdict = judge({key: names}, replace(context(shared, top / "0"), links=CachedDisk(disk)))
    assert isinstance(verdict, Refused)
    assert len(disk.asked) < 200_000


def test_a_refusal_says_nothing_about_what_lies_outside(tmp_path: Path) -> None:
    top = plant(tmp_path, "p/", "p/evil => ../out", "out/file", "out/dir/", "out/loop => loop")
    world = context(share(top / "p"), top / "p")
    for key in ("path", "source", "foo", "pattern", "command"):
        for start in ("evil", "../out", f"{top}/out", f"{top}/p/evil", f"file://{top}/out"):
            for name in ("file", "none", "dir", "loop", "x" * 300):
                for end in ("", "/x", "/x/..", "/../x", "/"):
                    verdict = judge({key: f"{start}/{name}{end}"}, world)
                    assert isinstance(verdict, Refused)
                    assert verdict.reason == OUTSIDE
    for name in ("file", "none"):
        verdict = judge({"path": f"{top}/out/{name}/../../p/x"}, world)
        assert isinstance(verdict, Refused)
        assert verdict.reason == OUTSIDE


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.one_of(NAMES, st.sampled_from(["..", ".", ""])), min_size=1, max_size=6)
NODES = st.tuples(st.lists(NAMES, min_size=1, max_size=3), st.one_of(st.none(), STEPS))


@given(nodes=st.lists(NODES, max_size=10), asked=st.lists(STEPS, min_size=1, max_size=8))
def test_an_admitted_path_lies_below_a_root_and_fewer_roots_admit_no_more(
    nodes: list[tuple[list[str], list[str] | None]], asked: list[list[str]]
) -> None:
    with TemporaryDirectory() as made:
        top = Path(made).resolve()
        plant(top, "a/a/", "b/")
        grow(top, nodes)
        roots = share(top / "a/a", top / "b") if (top / "a/a").is_dir() else share(top / "b")
        for steps in asked:
            path = f"{top}/{'/'.join(steps)}"
            admitted = isinstance(judge({"path": path}, context(roots, top)), Admitted)
            fewer = [
                isinstance(judge({"path": path}, context(root_set([root]), top)), Admitted)
                for root in roots.roots
            ]
            assert admitted or not any(fewer)
            assert not admitted or is_below(path, roots)
            relative = "/".join(steps).lstrip("/")
            if isinstance(judge({"path": relative}, context(roots, top / "b")), Admitted):
                assert not relative or is_below(f"{top}/b/{relative}", roots)


def is_below(path: str, roots: RootSet) -> bool:
    real = os.path.realpath(path)
    return any(f"{real}/".startswith(f"{root}/") for root in roots.paths)


def test_absolute_paths_of_another_machine_are_judged_only_as_uris(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/evil => ../private")
    world = context(share(top / "project"))
    remote = Policy(paths="remote")
    for value in ("/", "/etc/passwd", "/src/a.py", f"{top}/private/secret.txt"):
        for key in ("path", "source", "item", "pattern", "command"):
            assert isinstance(judge({key: value}, world, remote), Admitted), (key, value)
    for value in ("file:///etc/passwd", "../private/secret.txt", "evil/secret.txt"):
        for key in ("path", "source", "item"):
            assert isinstance(judge({key: value}, world, remote), Refused), (key, value)


@pytest.mark.long
@pytest.mark.usefixtures("half_a_minute")  # growing with the square, it would take minutes
def test_many_commands_of_many_lines_take_no_longer_than_their_length(tmp_path: Path) -> None:
    here = context(share(tmp_path), tmp_path)
    for line in ("\n", "; ", "#", "a#", "docker run ;\n", "git commit\n", "git commit #a "):
        judge({"commands": [f"{line * (4000 // len(line))}{n}" for n in range(MANY // 1000)]}, here)


@pytest.mark.long
def test_texts_of_very_many_signs_are_too_much(tmp_path: Path) -> None:
    here = context(share(tmp_path), tmp_path)
    values: list[Json] = ["a#" * 2000 + str(n) for n in range(200)]
    for key in ("commands", "items"):
        verdict = judge({key: values}, here)
        assert isinstance(verdict, Refused)
        assert "too many paths to judge" in verdict.reason
        assert isinstance(judge({key: values[:10]}, here), Admitted)


@pytest.mark.parametrize(
    ("tool", "source", "refused"),
    [
        ("move_file", "a", True),
        ("move_file", ".", True),
        ("delete_directory", "a/b", True),
        ("move_file", "a/b/kept/f", True),
        ("move_file", "a/b/other", False),
        ("move_file", "b", False),
        ("list_and_tag", "a", False),
        ("write_file", "a/b/f", False),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
def test_what_is_read_only_is_not_moved_with_a_folder_around_it(
    tmp_path: Path, tool: str, source: str, *, refused: bool, inline: bool
) -> None:
    plant(tmp_path, "a/b/kept/f", "a/b/other/f", "b/f")
    policy = Policy(access=(AccessRule((*tmp_path.parts[1:], "a", "b", "kept"), "read"),))
    world = context(share(tmp_path))
    for name, writes in ((tool, True), (tool, False)):
        guard = compile_tool(None, read_only=not writes, policy=ToolPolicy(policy), name=name)
        call = Call("tools/call", name, {"path": str(tmp_path / source)}, {})
        check = PlainPathCheck.of(world, (), policy, needs_write=writes, tool=name)
        verdict = at_once(call, guard, world, check) if inline else decide(call, guard, world)
        assert isinstance(verdict, Refused) is (refused and writes)


@pytest.mark.parametrize(
    "name", ["report (1).txt", "Copy of a b (final) - 2.docx", "x [1].txt", "a = b.md", "C #1.cs"]
)
def test_a_name_with_spaces_and_signs_is_one_name_to_windows(name: str) -> None:
    world = on_windows("C:\\R\\project")
    for path in (name, f"src\\{name}", f"C:\\R\\project\\{name}"):
        assert isinstance(judge({"path": path}, world), Admitted)
    for path in (
        f"{name} ",
        f"..\\{name}",
        f"C:\\R\\{name}",
        f"src \\{name}",
        f"x (..\\..\\y ) {name}",
    ):
        assert isinstance(judge({"path": path}, world), Refused)


EVERYDAY_ON_WINDOWS = (
    "Get-Content C:\\R\\project\\a.txt | Select-Object -First 10",
    "Get-ChildItem | Where-Object { $_.Length -gt 100 }",
    "Test-Path .\\src",
    "echo hello > out.txt 2>nul",
    "type a.txt 2>&1",
    "cd/d src && dir/b/s",
    'cd "src" && npm run build -- --port=3000',
    "curl.exe -s https://example.com/api | findstr x",
    "curl localhost:3000/api",
)
HOSTILE_ON_WINDOWS = (
    'type ".".\\private\\x',
    'dir "C:\\Program Files"',
    "type ^..\\private\\x > nul",
    "type .^.\\private\\x > nul",
    "echo x>.`.\\private\\x",
    "type '.'.\\private\\x | more",
    "type C:\\R\\private\\xx:8080",
    "type C:/R/private/x>o.txt",
    "dir https://..\\..",
    "cd\\ && dir",
    "echo a & type\\x\\y | more",
    "gc $Home | more",
    "gdalinfo zip://C:/R/private/x.zip",
    "type \\\\server\\share\\x | more",
    "echo x > ..\\y 2>nul",
    "dir ..\\*",
    "Get-Content C:\\R\\project\\..\\x | more",
)


def test_commands_of_windows_are_judged_word_by_word() -> None:
    world = on_windows("C:\\R\\project")
    verdicts = {
        command: isinstance(judge({"command": command}, world), Admitted)
        for command in (*EVERYDAY_ON_WINDOWS, *HOSTILE_ON_WINDOWS)
    }
    assert [one for one, admitted in verdicts.items() if admitted] == [*EVERYDAY_ON_WINDOWS]


_JPEG = f"/9j/4AAQSkZJRgABAQ{'A+b0Qx3zRkLm7/9w' * 20}=="


@pytest.mark.parametrize(
    ("value", "admitted"),
    [
        (_JPEG, True),
        (f"data:image/jpeg;base64,{_JPEG}", True),
        (_JPEG * 20, False),
        (_JPEG[:-2] * 20, True),
        (f"/etc{_JPEG}", False),
        (f"out{_JPEG}", False),
        (f"/9j/../etc{_JPEG}", False),
        (_JPEG[:100], False),
        ("/" + "ab/" * 100, False),
    ],
)
def test_base64_under_the_name_of_a_path_is_the_content_of_a_file(
    tmp_path: Path, value: str, *, admitted: bool
) -> None:
    (tmp_path / "out").symlink_to("/etc")
    schema: Json = {"properties": {"file": {"type": "string"}}}
    guard = compile_tool(schema, read_only=False, policy=DEFAULT, name="upload")
    verdict = decide(tool_call({"file": value}), guard, context(share(tmp_path), tmp_path))
    assert isinstance(verdict, Admitted) is admitted


@pytest.mark.parametrize("network", ["a::/1", "fe80::/10", "::1/128", "2001:db8::/32,a::/1"])
def test_a_network_is_a_file_only_if_there_is_one_of_that_name(
    tmp_path: Path, network: str
) -> None:
    top = plant(tmp_path, "project/a.txt", "private/1")
    guard = compile_tool({}, read_only=True, policy=DEFAULT, name="get_rules")
    here = context(share(top / "project"), top / "project")
    assert isinstance(decide(tool_call({"source": network}), guard, here), Admitted)

    (top / "project/a::").symlink_to("../private")
    reached = (top / "project/a::/1").exists() and "a::" in network
    here = context(share(top / "project"), top / "project")
    verdict = decide(tool_call({"source": network}), guard, here)
    assert isinstance(verdict, Refused) is reached
