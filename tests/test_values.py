import pytest

from hub.values import (
    BuiltinRoute,
    Call,
    ChildRoute,
    Json,
    JsonObject,
    ServerName,
    identity_of,
    is_this_user,
    object_or_empty,
    principal_in,
    profile_in,
)


def test_a_call_has_the_same_arguments_object_as_its_params() -> None:
    arguments: JsonObject = {"path": "/a"}
    call = Call("tools/call", "read", arguments, {"name": "read", "arguments": arguments})
    assert call.params["arguments"] is call.arguments


@pytest.mark.parametrize(
    "value",
    [
        Call("tools/call", "read", {}, {}),
        ChildRoute(ServerName("files"), "read", {}),
        BuiltinRoute("get-roots"),
    ],
)
def test_a_value_does_not_change(value: Call | ChildRoute | BuiltinRoute) -> None:
    with pytest.raises(AttributeError):
        value.name = "write"  # pyright: ignore[reportAttributeAccessIssue] - that is the test


def test_routes_are_equal_if_they_lead_to_the_same_place() -> None:
    assert ChildRoute(ServerName("a"), "t", {}) == ChildRoute(ServerName("a"), "t", {})
    assert ChildRoute(ServerName("a"), "t", {}) != ChildRoute(ServerName("b"), "t", {})
    assert BuiltinRoute("t") != ChildRoute(ServerName("a"), "t", {})


def test_a_value_that_is_not_an_object_counts_as_empty() -> None:
    given: JsonObject = {"a": 1}
    assert object_or_empty(given) is given
    others: list[Json] = [None, [], "x", 0, True]
    assert [object_or_empty(value) for value in others] == [{}] * 5


@pytest.mark.parametrize("principal", ["anna", "https://issuer.example anna\nben"])
@pytest.mark.parametrize("profile", [None, "staff"])
def test_a_key_of_what_belongs_to_a_principal_says_whose_it_is(
    principal: str, profile: str | None
) -> None:
    assert principal_in(identity_of(principal, profile)) == principal
    assert profile_in(identity_of(principal, profile)) == profile


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (identity_of("stdio", None), True),
        (identity_of("local", None), True),
        (identity_of("command line", None), True),
        (identity_of("local", "docs"), True),
        (identity_of("anna", None), False),
        (identity_of("anna", "local"), False),
        (identity_of("https://issuer.example anna", "docs"), False),
        (identity_of("https://issuer.example x\nstdio", None), False),
        (identity_of("https://issuer.example x\nstdio", "docs"), False),
    ],
)
def test_only_the_machines_user_is_this_user(identity: str, *, expected: bool) -> None:
    assert is_this_user(identity) is expected
