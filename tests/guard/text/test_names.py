from collections.abc import Iterator

import pytest

from hub.guard.budget import TooManyWaysError
from hub.guard.text import names as names_module
from hub.guard.text.names import names_in, patched_names_in, quoted_names_in, smallest_pieces_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", []),
        ("a,b", ["a", "b"]),
        ("a;b|c", ["a", "b", "c", "b|c", "a;b"]),
        ("k = v", ["k", "v"]),
        ("-ofile,x", ["file,x", "-ofile", "file", "x"]),
        ("'a b'", ["a b"]),
        ("a=b:c", ["a", "a=b", "b", "b:c", "c"]),
        ("a:@b", ["a", "b", "@b"]),
        ("a\x00b", ["a", "b"]),
        ("a" * 256 + ",b", ["b"]),
        ("-o" + "a" * 255 + ",b", ["a" * 255, "b"]),
    ],
)
def test_names_are_the_items_of_a_list_and_both_sides_of_a_sign(
    text: str, names: list[str]
) -> None:
    assert list(names_in(text, words=False)) == names


def test_words_are_names_where_the_text_is_a_list_of_words() -> None:
    assert list(names_in("a.py  b.py", words=True)) == ["a.py", "b.py"]
    assert list(names_in("a.py  b.py", words=False)) == []


def test_the_smallest_pieces_have_no_signs() -> None:
    text = '{"a": "/b/c", "d":[-e=f,“g h”]} a'
    assert smallest_pieces_in(text) == ["a", "/b/c", "d", "-e", "f", "g", "h"]


def test_names_are_read_between_any_two_quotes() -> None:
    assert list(quoted_names_in("see 'a b', not \"c or 'd'")) == [
        "see",
        "a b",
        ", not",
        "c or",
        "d",
    ]
    assert list(quoted_names_in("'" + "a" * 256 + "'")) == []


def test_an_item_is_cut_at_its_signs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[str] = []
    sides_of = names_module._sides_of  # pyright: ignore[reportPrivateUsage] - to count its calls

    def counted(item: str) -> Iterator[str]:
        cut.append(item)
        return sides_of(item)

    monkeypatch.setattr(names_module, "_sides_of", counted)
    assert list(names_in("a:b", words=True)) == ["a", "b"]
    assert cut == ["a:b"]


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ("--- a/x.py\t2024-01-01\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n", {"a/x.py", "x.py", "y.py"}),
        ("diff --git a/x b/x\nnew file mode 100644\n", {"a/x", "b/x", "x"}),
        ("diff --git a/x b/y\nrename from x\nrename to ../y\n", {"../y", "x"}),
        ("*** /x\t2024\n--- /y\t2024\n***************\n", {"/x", "/y"}),
        ("Index: ../x\n--- ../x\n+++ ../x\n", {"../x"}),
        ('--- "a/\\056\\056/x"\n+++ "b/\\056\\056/x"\n', {"a/../x", "../x"}),
        ("  *** Begin Patch\r\n  *** Add File: ../x\r\n  +a\r\n", {"../x"}),
        ("*** Update File: a\n*** Move to: /b\n@@\n", {"a", "/b"}),
        ("*** Update File: a -> ../b\n@@\n", {"a", "../b"}),
        ("***Add File: ../a\n+b\n", {"../a"}),
        ("../x\n```python\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", {"../x"}),
        ("### `../x`:\n\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", {"../x"}),
        ("+++ ../x\n@@ -1 +1 @@\n-a\n+b\n", {"../x"}),
        ("---\t../x\n\n+++\t../y\n@@ -1 +1 @@\n-a\n+b\n", {"../x", "../y"}),
        ("Index: ../x\n====\n@@ -1 +1 @@\n-a\n+b\n", {"../x"}),
        ("diff -r 000 ../x\n@@ -1 +1 @@\n-a\n+b\n", {"../x"}),
    ],
)
def test_a_patch_names_the_files_that_it_changes(patch: str, names: set[str]) -> None:
    assert names <= set(patched_names_in(patch))


def test_a_patch_of_very_many_files_is_not_taken_for_one_of_a_few() -> None:
    with pytest.raises(TooManyWaysError):
        list(patched_names_in("--- a\n+++ b\n" * 20_000 + "--- a\n+++ ../x\n"))


@pytest.mark.parametrize(
    "text", ["# Title\n\n--- \n\n*** /x and y ***\n", "--- /x", "a\n--- /x\nb\n", "+++ /x\n"]
)
def test_a_text_that_is_no_patch_names_no_files(text: str) -> None:
    assert list(patched_names_in(text)) == []


def test_a_text_may_mention_files() -> None:
    text = "See @../x, (@src/a.ts) or '@/etc/y'. Mail a@b.c; @z?"
    assert list(patched_names_in(text, mentions=True)) == ["../x", "src/a.ts", "/etc/y", "z"]
    assert "../x" in patched_names_in(f"***\n{text}", mentions=True)
