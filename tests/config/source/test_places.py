import pytest

from hub.config.source.places import (
    JsonPlaces,
    Path,
    Places,
    places_in_toml,
    places_in_yaml,
    spelled,
)

YAML = """
a: 1
b:
  - x
  - c: "q r"   # d
    e: {f: 2}
"""
JSON = '{"a": 1, "b": ["x", {"c": "q \\"r", "e": {"f": 2}}], "g": []}'
TOML = """
a = 1
[b.c]
d = "q r"  # e
"f.g" = [1]
[[h]]
i = true
"""


def parts(text: str, places: Places) -> dict[Path, tuple[str, str]]:
    return {
        path: (text[place.start : place.key_end], text[place.value : place.value_end])
        for path, place in places.items()
        if path
    }


def test_the_places_in_yaml() -> None:
    assert parts(YAML, places_in_yaml(YAML)) == {
        ("a",): ("a", "1"),
        ("b",): ("b", "b"),
        ("b", 0): ("", "x"),
        ("b", 1): ("", "c"),
        ("b", 1, "c"): ("c", '"q r"'),
        ("b", 1, "e"): ("e", "e"),
        ("b", 1, "e", "f"): ("f", "2"),
    }
    assert places_in_yaml("") == {}


IN_JSON: dict[Path, tuple[str, str]] = {
    ("a",): ('"a"', "1"),
    ("b",): ('"b"', '"b"'),
    ("b", 0): ("", '"x"'),
    ("b", 1): ("", "{"),
    ("b", 1, "c"): ('"c"', '"q \\"r"'),
    ("b", 1, "e"): ('"e"', '"e"'),
    ("b", 1, "e", "f"): ('"f"', "2"),
    ("g",): ('"g"', '"g"'),
}


def test_the_places_in_json() -> None:
    places = JsonPlaces(JSON)
    found = {path: place for path in IN_JSON if (place := places.nearest(path)) is not None}
    assert parts(JSON, found) == IN_JSON


def test_of_a_path_that_json_does_not_have_the_place_around_it_is_found() -> None:
    places = JsonPlaces("// of an editor\n" + JSON)
    assert places.nearest(()) is places.nearest(("x",)) is places.nearest((0,)) is None
    assert places.nearest(("b", 1, "x", "y")) == places.nearest(("b", 1))
    assert places.nearest(("g", 0)) == places.nearest(("g", "h")) == places.nearest(("g",))
    assert places.nearest(("a", "b")) == places.nearest(("a",))


def test_the_places_in_toml() -> None:
    assert parts(TOML, places_in_toml(TOML)) == {
        ("a",): ("a", "1"),
        ("b",): ("b.c", "b.c"),
        ("b", "c"): ("b.c", "b.c"),
        ("b", "c", "d"): ("d", '"q r"'),
        ("b", "c", "f.g"): ('"f.g"', '"f.g"'),
        ("h",): ("h", "h"),
        ("h", "i"): ("i", "true"),
    }


@pytest.mark.parametrize(
    ("path", "text"), [((), ""), (("a", "b", 0, "c"), "a.b[0].c"), (("a", 1), "a[1]")]
)
def test_a_path_is_spelled_as_in_errors(path: Path, text: str) -> None:
    assert spelled(path) == text
