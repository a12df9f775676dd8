import pytest

from hub.errors import (
    ChildError,
    ConfigError,
    Fault,
    HubError,
    RootError,
    RouteError,
    StartError,
    leaves,
)


def test_an_operators_error_says_what_and_where_and_then_what_to_do() -> None:
    where, what, fix = (
        "hub.yaml: servers.a.args[2]",
        "unknown placeholder ${rots}",
        "Write ${roots}.",
    )
    assert str(ConfigError(where, what, fix)).splitlines() == [f"{where}: {what}", fix]
    both = ConfigError.of([Fault(where, what, fix), Fault("", "no config", "Name one.", "excerpt")])
    assert str(both).splitlines() == [
        *(f"{where}: {what}", fix, ""),
        *("no config", "Name one.", "excerpt", ""),
        "2 mistakes.",
    ]
    unable = StartError("port 8765 is in use", "Name another one with --http.")
    assert str(unable).splitlines() == [unable.what, unable.fix]


@pytest.mark.parametrize("kind", [RootError, RouteError, ChildError])
def test_every_error_has_a_readable_text(kind: type[HubError]) -> None:
    assert issubclass(kind, HubError)
    assert str(kind("Path is not accessible")) == "Path is not accessible"


def test_a_group_of_errors_is_taken_apart_however_deep() -> None:
    first, second, third = ValueError("1"), KeyError("2"), KeyboardInterrupt()
    inner = BaseExceptionGroup("inner", [second, BaseExceptionGroup("innermost", [third])])
    assert list(leaves(BaseExceptionGroup("outer", [first, inner]))) == [first, second, third]
    assert list(leaves(first)) == [first]
