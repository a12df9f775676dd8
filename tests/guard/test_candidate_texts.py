from pathlib import Path

import pytest

from hub.guard.arguments import PathCandidate
from hub.guard.candidate_texts import ONE_NAME, CandidateTexts
from hub.guard.containment import PathTracer
from hub.guard.keys.vocabulary import Kind
from hub.guard.local_paths import LocalPaths
from hub.guard.policy import Policy
from hub.guard.text.readings import Reader
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import POSIX, context, share

PATH, GLOB, WEAK, NEUTRAL, COMMAND = Kind.PATH, Kind.GLOB, Kind.WEAK, Kind.NEUTRAL, Kind.COMMAND


def texts_of(tmp_path: Path, candidate: PathCandidate) -> list[tuple[str, str, Kind]]:
    top = plant(tmp_path, *PROJECT)
    tracer = PathTracer(context(share(top / "project")), Policy(), needs_write=True)
    reader = Reader({"HOME": "/h"}, POSIX)
    local_paths = LocalPaths(tracer, reader, posix=True, all_local=True)
    texts = CandidateTexts(tracer, reader, posix=True, local_paths=local_paths)
    assert isinstance(candidate.value, str)
    return list(texts.of(candidate, candidate.value))


def test_a_text_names_files_by_a_sign_that_its_description_tells(tmp_path: Path) -> None:
    value = "Please explain what is in @../x and why it is there"
    for why, is_named in (("described as 'Use @ syntax'", True), ("described as 'file'", False)):
        texts = texts_of(tmp_path, PathCandidate("/k", "k", WEAK, value, why))
        assert ("../x" in [text for text, *_ in texts]) is is_named


@pytest.mark.parametrize(
    ("kind", "value", "texts"),
    [
        (PATH, "src/a", [("src/a", "as given", PATH)]),
        (
            PATH,
            "a,/b",
            [("a,/b", "as given", PATH), ("/b", "one item of a list", NEUTRAL)],
        ),
        (
            WEAK,
            "~/x",
            [("~/x", "as given", WEAK), ("/h/x", "with variables and '~' expanded", WEAK)],
        ),
        (NEUTRAL, "a.txt", [("a.txt", "as given", NEUTRAL)]),
        (
            NEUTRAL,
            "k=v w",
            [("k=v w", "as given", NEUTRAL), ("k", ONE_NAME, NEUTRAL), ("v w", ONE_NAME, NEUTRAL)],
        ),
        (WEAK, "https://example.com/x", []),
        (WEAK, "https://h/../../../x", [("https://h/../../../x", "as a relative path", WEAK)]),
        (COMMAND, "cat src/a", [("cat", "as given", NEUTRAL), ("src/a", "as given", NEUTRAL)]),
    ],
)
def test_the_kind_of_a_value_tells_which_texts_are_judged(
    tmp_path: Path, kind: Kind, value: str, texts: list[tuple[str, str, Kind]]
) -> None:
    found = texts_of(tmp_path, PathCandidate("/k", "k", kind, value, ""))
    # A part can be a path of its own or a name; a short command is judged as a whole, too.
    assert [text for text in found if text in texts] == texts
    assert kind in {PATH, COMMAND} or found == texts


def test_a_value_that_may_be_the_content_of_a_file_is_read_as_a_whole(tmp_path: Path) -> None:
    parts = texts_of(tmp_path, PathCandidate("/k", "k", WEAK, "a,/b", ""))
    whole = texts_of(tmp_path, PathCandidate("/k", "k", WEAK, "a,/b", "", whole=True))
    assert whole == [("a,/b", "as given", WEAK)]
    assert whole[0] in parts
    assert len(parts) > 1


def test_of_a_mount_the_part_on_this_machine_is_judged(tmp_path: Path) -> None:
    mount = PathCandidate("/k", "volumes", WEAK, "src:/data", "")
    assert texts_of(tmp_path, mount) == [("src", "as given", WEAK)]
    plant(tmp_path, "project/src:/")
    whole = ("src:/data", "as given", WEAK)
    assert texts_of(tmp_path, mount) == [("src", "as given", WEAK), whole]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cat ../x", {"cat", "../x"}),
        ("cat leak\n", {"cat", "leak"}),
        ("grep -rn word ../x", {"../x"}),
        ("look it up in ~/x or /y", {"~/x", "/y"}),
        ("../x", set[str]()),
    ],
)
def test_the_words_of_a_typed_line_are_judged(tmp_path: Path, line: str, words: set[str]) -> None:
    plain = texts_of(tmp_path, PathCandidate("/k", "text_k", NEUTRAL, line, ""))
    for key in ("input", "stdin", "keys", "chars", "send", "run", "send_text"):
        typed = texts_of(tmp_path, PathCandidate("/k", key, NEUTRAL, line, ""))
        assert typed[: len(plain)] == plain
        assert {text for text, _, _ in typed[len(plain) :]} >= words


def test_a_line_that_ends_with_the_enter_key_is_typed(tmp_path: Path) -> None:
    typed = texts_of(tmp_path, PathCandidate("/k", "text_k", NEUTRAL, "cat leak\r", ""))
    assert ("leak", "as given", NEUTRAL) in typed
