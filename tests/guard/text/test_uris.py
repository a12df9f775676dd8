import pytest

from hub.guard.text.uris import uri_parts


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
    assert len(uri_parts("docs://" + "a/" * 1000)) <= 33
