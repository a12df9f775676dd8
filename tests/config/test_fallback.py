"""Only `roots.fallback` changes; every other character of the file stays."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.config.fallback import added, entries, removed, renamed
from hub.errors import ConfigError
from tests.conftest import PROJECT

REST = "servers: {a: {command: x}}  # mine\n"
LONG = """\
version: 1   # required

roots:
  # what is shared
  fallback:   # these
    # the first
    - ./a  # A
    # the second
    - {path: b, name: B}  # BB
    - path: c
      name: C  # CC

    # the third
    -
      path: d
    - "e f"

  # the end
  detect: false
servers: {a: {command: x}}  # mine
"""


def fallback(text: str) -> Any:
    return yaml.safe_load(text)["roots"]["fallback"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            f"version: 1  # x\n\n{REST}",
            f"version: 1  # x\n\n{REST}roots:\n  fallback:\n    - ./new\n",
        ),
        (f"{REST}version: 1", f"{REST}version: 1\nroots:\n  fallback:\n    - ./new"),
        (f"version: 1\nroots:\n{REST}", f"version: 1\nroots:\n  fallback:\n    - ./new\n{REST}"),
        (
            f"version: 1\nroots: {{}}\n{REST}",
            f"version: 1\nroots:\n  fallback:\n    - ./new\n{REST}",
        ),
        (
            f"version: 1\nroots:  # r\n  # d\n  detect: true\n{REST}",
            f"version: 1\nroots:  # r\n  # d\n  detect: true\n  fallback:\n    - ./new\n{REST}",
        ),
        (
            f"version: 1\nroots: {{detect: true}}\n{REST}",
            f"version: 1\nroots: {{detect: true, fallback: [./new]}}\n{REST}",
        ),
        (
            f"version: 1\nroots:\n  fallback: []  # none\n{REST}",
            f"version: 1\nroots:\n  fallback:  # none\n    - ./new\n{REST}",
        ),
        (
            f"version: 1\nroots: {{fallback: []}}\n{REST}",
            f"version: 1\nroots: {{fallback: [./new]}}\n{REST}",
        ),
        (
            f"version: 1\nroots: {{fallback: [a, 'b', ]}}\n{REST}",
            f"version: 1\nroots: {{fallback: [a, 'b', ./new, ]}}\n{REST}",
        ),
        (LONG, LONG.replace('    - "e f"\n', '    - "e f"\n    - ./new\n')),
        (
            "version: 1\r\nroots:\r\n  fallback:\r\n  - a  # A\r\n",
            "version: 1\r\nroots:\r\n  fallback:\r\n  - a  # A\r\n  - ./new\r\n",
        ),
        ("{version: 1, servers: {}}", "{version: 1, servers: {}, roots: {fallback: [./new]}}"),
    ],
)
def test_an_entry_is_added_as_the_last_one(before: str, after: str) -> None:
    assert added(before, "./new", None) == after


def test_an_entry_with_a_name_is_a_mapping() -> None:
    text = added(f"version: 1\nroots:\n  fallback:\n    - a\n{REST}", "b, c", "Two: words")
    assert '    - {path: "b, c", name: "Two: words"}\n' in text


@pytest.mark.parametrize(
    ("index", "cut"),
    [
        (0, "    - ./a  # A\n"),
        (1, "    - {path: b, name: B}  # BB\n"),
        (2, "    - path: c\n      name: C  # CC\n"),
        (3, "    -\n      path: d\n"),
        (4, '    - "e f"\n'),
    ],
)
def test_an_entry_of_a_list_is_removed_with_its_lines(index: int, cut: str) -> None:
    assert removed(LONG, index) == LONG.replace(cut, "")


@pytest.mark.parametrize(
    ("before", "index", "after"),
    [
        ("[a, b, c]", 0, "[b, c]"),
        ("[a, b, c]", 1, "[a, c]"),
        ("[a, b, c]", 2, "[a, b]"),
        ("[a]", 0, "[]"),
        ("[\n a,  # A\n b  # B\n ]", 1, "[\n a,  # A\n ]"),
        ("  # why\n   - a  # A\n   # end", 0, " []  # why\n   # end"),
    ],
)
def test_the_remaining_entries_are_still_a_list(before: str, index: int, after: str) -> None:
    gap = "" if before.startswith(" ") else " "
    text = f"version: 1\nroots:\n  fallback:{gap}{before}\n{REST}"
    gap = "" if after.startswith(" ") else " "
    assert removed(text, index) == f"version: 1\nroots:\n  fallback:{gap}{after}\n{REST}"


@pytest.mark.parametrize(
    ("index", "old", "new"),
    [
        (0, "- ./a  # A", "- {path: ./a, name: New}  # A"),
        (1, "{path: b, name: B}  # BB", "{path: b, name: New}  # BB"),
        (2, "name: C  # CC", "name: New  # CC"),
        (3, "      path: d\n", "      path: d\n      name: New\n"),
        (4, '- "e f"', '- {path: "e f", name: New}'),
    ],
)
def test_an_entry_is_renamed_in_place(index: int, old: str, new: str) -> None:
    assert renamed(LONG, index, "New") == LONG.replace(old, new)


FLOW = """\
version: 1
roots:
  fallback: [
    # about a
    /a,  # A
    # about b
    /b
    , # after b
    /c, /d,
    # about e
    /e,
    # the end
  ]
servers: {}
"""


@pytest.mark.parametrize(
    ("index", "old", "new"),
    [
        (0, "    /a,  # A\n", ""),
        (1, "    /b\n    , # after b\n", ""),
        (2, "/c, ", ""),
        (3, " /d,\n", " \n"),
        (4, "    /e,\n", ""),
    ],
)
def test_comments_of_other_entries_stay_in_a_list_in_brackets(
    index: int, old: str, new: str
) -> None:
    assert removed(FLOW, index) == FLOW.replace(old, new)


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ("[a]", ("[]",)),
        ("[a, b]", ("[b]", "[a]")),
        ("[a, b, ]", ("[b, ]", "[a, ]")),
        ("[a, # A\n b]", ("[ # A\n b]", "[a, # A\n ]")),
        ("[\n a\n]", ("[\n]",)),
    ],
)
def test_an_entry_in_brackets_is_removed(listed: str, left: tuple[str, ...]) -> None:
    for index, after in enumerate(left):
        found = removed(f"version: 1\nroots:\n  fallback: {listed}\n", index)
        assert found == f"version: 1\nroots:\n  fallback: {after}\n"


def test_names_in_other_spellings_are_found() -> None:
    text = "version: 1\nroots:\n  fallback: [{path: a}, {path: b, name: }, {path: c, name: ~}]\n"
    for index in range(3):
        assert fallback(renamed(text, index, "N"))[index]["name"] == "N"
    plain = "version: 1\nroots:\n  fallback:\n    - a, b\n"
    assert fallback(renamed(plain, 0, "N")) == [{"path": "a, b", "name": "N"}]


@pytest.mark.parametrize(
    "text",
    [
        "x: &shared [a]\nversion: 1\nroots: {fallback: *shared}\n",
        "x: &roots {fallback: [a]}\nversion: 1\nroots: *roots\n",
        "x: &x {fallback: [a]}\nversion: 1\nroots:\n  <<: *x\n  detect: true\n",
        "version: 1\nroots:\n  fallback: &all\n    - &one a\nx: *all\ny: *one\n",
        "roots: 7",
    ],
)
def test_a_list_that_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        added(text, "./new", None)
    assert raised.value.faults[0].said.startswith("roots.fallback: ")
    assert raised.value.faults[0].fix == "Nothing was changed. Edit the file by hand."


def test_the_entries_are_known_as_they_are_written() -> None:
    assert entries(LONG) == ["./a", "b", "c", "d", "e f"]
    assert entries("version: 1\nroots:\n") == entries("") == []


def test_the_example_config_is_changed_in_one_line() -> None:
    before = (PROJECT / "hub.yaml.example").read_text(encoding="utf-8").splitlines()
    after = added("\n".join(before), "./more", None).splitlines()
    assert [line for line in after if line not in before] == ["    - ./more"]
    assert [line for line in after if line in before] == before


WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t'\"#:,[]{}&*!|>%@`- \n~$"),
    min_size=1,
)


@pytest.mark.long
@settings(max_examples=settings().max_examples // 2)  # each is tried in three files
@given(st.lists(st.tuples(WORDS, st.none() | WORDS), min_size=1, max_size=4), WORDS)
def test_any_path_and_name_are_read_back_as_they_were(
    items: list[tuple[str, str | None]], name: str
) -> None:
    for text in (LONG, f"version: 1\nroots: {{fallback: [a]}}\n{REST}", f"version: 1\n{REST}"):
        there, changed = entries(text), text
        for path, called in items:
            changed = added(changed, path, called)
        assert entries(changed) == [*there, *(path for path, _ in items)]
        last = len(entries(changed)) - 1
        assert fallback(renamed(changed, last, name))[last] == {"path": items[-1][0], "name": name}
        for index in reversed(range(len(there), last + 1)):
            changed = removed(changed, index)
        assert entries(changed) == there
        if there:
            assert changed == text
