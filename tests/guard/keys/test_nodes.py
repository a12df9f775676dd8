from msgspec.structs import force_setattr

from hub.guard.keys.nodes import ArgumentNode, node_of_key, nodes_of, overridden
from hub.guard.keys.vocabulary import Kind


def test_each_node_is_met_once_in_a_shape_that_contains_itself() -> None:
    inner = ArgumentNode(Kind.GLOB)
    shape = ArgumentNode(properties={"a": inner, "b": inner}, items=inner)
    force_setattr(inner, "extra", shape)
    assert list(map(id, nodes_of(shape))) == [id(shape), id(inner)]


def test_an_override_in_a_recursive_schema_changes_one_level() -> None:
    shape = ArgumentNode()
    force_setattr(shape, "properties", {"a": shape})
    changed = overridden(shape, ["a", "a"], Kind.PATH)
    assert changed.member("a").member("a").kind is Kind.PATH
    assert changed.member("a").kind is Kind.NEUTRAL
    assert changed.member("a").member("a").member("a") is shape


def test_an_undeclared_argument_is_judged_by_its_name() -> None:
    assert ArgumentNode().member("path").kind is Kind.PATH
    assert ArgumentNode().member("path") is node_of_key("path")
    assert ArgumentNode().member("Makefile").kind is Kind.NEUTRAL
    assert ArgumentNode().member("makefile").kind is Kind.PATH
    assert ArgumentNode(extra=ArgumentNode(Kind.GLOB)).member("path").kind is Kind.GLOB
    assert ArgumentNode(extra=ArgumentNode()).member("path").kind is Kind.PATH
