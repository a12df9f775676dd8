import random
import shutil
import subprocess
from pathlib import Path

import pytest

from hub.file_server.files import unified_diff

PATCH = shutil.which("patch")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a", "b", "@@ -1 +1 @@\n-a\n{none}+b\n{none}"),
        ("a\nz\n", "a\nz", "@@ -1,2 +1,2 @@\n a\n-z\n+z\n{none}"),
        ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
        (
            "1\n2\n3\n4\n5\n6\n7\n",
            "1\n2\n3\n4\n6\n7\n",
            "@@ -2,6 +2,5 @@\n 2\n 3\n 4\n-5\n 6\n 7\n",
        ),
        ("x\nx\nx\n1", "x\nx\nx\nx", "@@ -1,4 +1,4 @@\n x\n x\n x\n-1\n{none}+x\n{none}"),
        ("a\f1\n", "a\f2\n", "@@ -1 +1 @@\n-a\f1\n+a\f2\n"),
    ],
)
def test_a_diff_is_as_other_programs_show_it(before: str, after: str, shown: str) -> None:
    said = unified_diff("a", before, after)
    assert said == "--- a\n+++ a\n" + shown.format(none="\\ No newline at end of file\n")


def test_lines_around_a_change_are_shown_as_unchanged_however_many_are_like_them() -> None:
    same = "".join(f"{at}\n}}\n" for at in range(150))
    said = unified_diff(
        "a", f"old\n{same}old\n}}\n}}\n}}\n}}\n", f"new\n{same}new\n}}\n}}\n}}\n}}\n"
    )
    assert said.endswith(" }\n-old\n+new\n }\n }\n }\n")


@pytest.mark.live
@pytest.mark.skipif(PATCH is None, reason="needs patch")
def test_patch_makes_the_new_text_of_the_old_one(tmp_path: Path) -> None:
    chance, file = random.Random(1), tmp_path / "f"  # noqa: S311 - texts for a test
    for _ in range(40):
        old = [f"{chance.randrange(3)}\n" for _ in range(chance.randrange(1, 30))]
        new = [*old, "x\n"]
        for _ in range(chance.randrange(1, 4)):
            at, length = chance.randrange(len(new)), chance.randrange(3)
            new[at : at + length] = [f"{chance.randrange(3)}\n" for _ in range(chance.randrange(3))]
        before, after = (
            "".join(one)[: -1 if chance.random() < 0.3 else None] for one in (old, new)
        )
        if before != after and after:
            file.write_text(before)
            subprocess.run(  # noqa: S603 - the program that diffs are for
                [str(PATCH), "--silent", "--fuzz=0", "--no-backup-if-mismatch", file],
                input=unified_diff("f", before, after),
                text=True,
                check=True,
            )
            assert file.read_text() == after
