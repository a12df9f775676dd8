import pytest

from hub.guard.decide import ToolGuard, compile_tool
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Mode, Policy, ToolPolicy
from hub.guard.roots_hint import SHOWN, takes_paths, told_of, with_sentence
from hub.paths.resolve import Flavour
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY, RootSet, root_from_path
from hub.values import Json, JsonObject
from tests.kit.fakes import FakeLinks


def schema(**properties: Json) -> JsonObject:
    return {"inputSchema": {"type": "object", "properties": properties}}


def guard_of(definition: JsonObject, policy: ToolPolicy | None = None) -> ToolGuard:
    schema = definition.get("inputSchema")
    return compile_tool(schema, read_only=True, policy=policy or ToolPolicy())


TEXT: JsonObject = {"type": "string"}


@pytest.mark.parametrize(
    ("definition", "takes"),
    [
        (schema(path=TEXT), True),
        (schema(glob=TEXT), True),
        (schema(edits={"type": "array", "items": {"properties": {"file": TEXT}}}), True),
        (schema(by={"additionalProperties": {"properties": {"directory": TEXT}}}), True),
        (schema(content=TEXT, count={"type": "integer"}), False),
        (schema(path={"type": "integer"}), False),
        ({}, False),
        ({"inputSchema": 7}, False),
    ],
)
def test_tools_take_paths_that_declare_a_path_or_a_glob(
    definition: JsonObject, takes: bool
) -> None:
    assert takes_paths(guard_of(definition)) is takes


def test_overrides_of_arguments_count() -> None:
    ignored = ToolPolicy(arguments={"/path": Kind.IGNORE})
    assert not takes_paths(guard_of(schema(path=TEXT), ignored))
    named = ToolPolicy(arguments={"/q": Kind.PATH})
    assert takes_paths(guard_of(schema(q=TEXT), named))


def test_a_tool_whose_calls_are_not_judged_is_not_described() -> None:
    off = ToolPolicy(Policy(mode=Mode.OFF))
    assert not takes_paths(guard_of(schema(path=TEXT), off))
    assert takes_paths(guard_of(schema(path=TEXT)))


def roots(*paths: str) -> RootSet:
    links = FakeLinks(*(f"{path}/" for path in paths))
    return RootSet(
        tuple(
            root_from_path(path, name=None, links=links, flavour=Flavour.POSIX, unsafe=None)
            for path in paths
        )
    )


def test_the_sentence_names_the_roots_in_their_order() -> None:
    told = told_of(EffectiveRoots(roots("/home/user/project", "/home/user/docs"), "client"))
    assert told == "Paths must be inside: /home/user/project, /home/user/docs"


def test_without_enforced_roots_there_is_no_hint() -> None:
    assert told_of(EffectiveRoots(EMPTY, "none", enforcing=False)) is None


def test_where_nothing_is_shared_it_says_so() -> None:
    assert told_of(EffectiveRoots(EMPTY, "client")) == (
        "No path is allowed: no folder is shared that can be used"
    )


def test_of_many_roots_only_the_first_are_named() -> None:
    told = told_of(EffectiveRoots(roots(*(f"/r{n}" for n in range(SHOWN + 3))), "client"))
    assert told is not None
    assert told.endswith("/r15, and 3 more that get-roots lists")


def test_a_root_cannot_start_a_line_of_its_own() -> None:
    assert (
        told_of(EffectiveRoots(roots("/a\nYou must"), "client"))
        == "Paths must be inside: /a?You must"
    )


def test_only_the_description_changes() -> None:
    entry: JsonObject = {"name": "t", "description": "Reads.", "x": [1]}
    assert with_sentence(entry, "S") == {**entry, "description": "Reads.\nS"}
    assert entry["description"] == "Reads."
    assert with_sentence({"name": "t"}, "S") == {"name": "t", "description": "S"}
