from msgspec.structs import replace

from hub.guard.arguments import escaped
from hub.guard.judge import rewritten
from hub.values import JsonObject
from tests.kit.worlds import tool_call


def test_strings_are_replaced_where_pointers_lead() -> None:
    arguments: JsonObject = {"a/b": ["x", {"~": "x", "n": 1}], "c": "x", "d": None}
    call = tool_call(arguments)
    made = rewritten(call, {"/a~1b/0": "y", "/a~1b/1/~0": "z", "/nowhere": "!"})
    assert made.arguments == {"a/b": ["y", {"~": "z", "n": 1}], "c": "x", "d": None}
    assert made.params == {"name": "tool", "arguments": made.arguments}
    assert call.arguments["a/b"] == ["x", {"~": "x", "n": 1}]


def test_without_values_or_arguments_the_call_stays_the_same() -> None:
    call = tool_call({"a": "x"})
    assert rewritten(call, {}) is call
    other = replace(call, params={"uri": "x"})
    assert rewritten(other, {"/a": "y"}) is other


def test_a_step_of_a_pointer_is_escaped() -> None:
    assert escaped("a/~b") == "a~1~0b"
