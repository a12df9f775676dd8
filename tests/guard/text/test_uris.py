import pytest

from hub.guard.text.uris import climbing, uri_parts
from hub.paths.resolve import PathError


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("http://../../x", "http://../../x"),
        ("https://h/%2e%2e/%252e%252E/..\\x", "https://h/../../../x"),
        ("data:,/../..", "data:,/../.."),
        ("https://h/a/../../x", None),
        ("https://h/../..", None),
        ("https://h/./a%20b...c/", None),
        ("notes://path/../../x", "path/../../x"),
        ("notes://path/a/%2e%2e/..\\x", "a/../../x"),
        ("notes://path/../x", "../x"),
        ("notes://path/a/../x", None),
    ],
)
def test_a_remote_uri_may_climb_if_it_is_taken_for_a_path(uri: str, path: str | None) -> None:
    assert climbing(uri) == path


def test_a_remote_uri_is_not_decoded_for_ever() -> None:
    with pytest.raises(PathError, match="too many ways"):
        climbing("https://h/%" + "25" * 100_000 + "2e")


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("docs://a/b/c", ["a/b/c", "b/c", "c"]),
        ("docs://a//etc", ["a//etc", "/etc", "etc"]),
        ("docs:///a", ["/a", "a"]),
        ("docs:a", ["a"]),
        ("docs://%2Fetc%2Fx", ["%2Fetc%2Fx"]),
        ("docs://a?path=../x&raw#y", ["a", "../x", "raw", "y"]),
        ("docs://", []),
        ("https://example.com/a", []),
        ("file:///a", []),
        ("a/b", []),
    ],
)
def test_values_start_behind_the_scheme_and_each_slash(uri: str, parts: list[str]) -> None:
    assert uri_parts(uri) == parts


def test_a_long_uri_has_not_many_parts() -> None:
    assert len(uri_parts("docs://" + "a/" * 1000)) <= 66


@pytest.mark.parametrize("value", ["%2Fetc%2Fx", "leak", "..%2Fx"])
@pytest.mark.parametrize("behind", [0, 1, 40, 100])
def test_a_value_counts_however_many_names_are_around_it(value: str, behind: int) -> None:
    parts = uri_parts("docs://" + "a/" * 50 + value + "/a" * behind)
    assert any(part.split("/")[0] == value for part in parts)
