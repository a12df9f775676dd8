import pytest

from hub.catalog.merge import is_for_all, merged_instructions
from hub.roots.roots import EMPTY
from hub.values import ServerName
from tests.kit.worlds import Directories, share

FILES, GIT = ServerName("files"), ServerName("git")


def test_the_text_of_a_single_server_is_unchanged() -> None:
    assert (
        merged_instructions({FILES: " Read first.\n"}, preface=None, several=False)
        == " Read first.\n"
    )


def test_several_servers_have_a_heading_each_in_their_order() -> None:
    texts = {GIT: "Commit often.", FILES: "Read first."}
    assert merged_instructions(texts, preface=None, several=True) == (
        "# git\n\nCommit often.\n\n# files\n\nRead first."
    )


def test_the_operators_text_comes_first() -> None:
    assert merged_instructions({FILES: "Read."}, preface="Ours.", several=False) == "Ours.\n\nRead."
    assert merged_instructions({}, preface="Ours.", several=True) == "Ours."


@pytest.mark.parametrize("several", [True, False])
def test_nothing_in_a_servers_text_is_hidden(several: bool) -> None:
    told = merged_instructions(
        {FILES: "Read\x1b[8m, then\u202e write\x07.\n"}, preface=None, several=several
    )
    assert told is not None
    assert told.endswith("Read\\x1b[8m, then\\u202e write\\x07.\n")


@pytest.mark.parametrize("several", [True, False])
def test_a_server_without_instructions_has_no_heading(several: bool) -> None:
    assert merged_instructions({FILES: "", GIT: " \n"}, preface=None, several=several) is None


def test_a_text_that_names_a_root_is_not_for_all() -> None:
    roots = share("/home/user/project", links=Directories())
    assert is_for_all("Reads files.", roots)
    assert is_for_all("/home/user/project", EMPTY)
    assert not is_for_all("Reads below /home/user/project.", roots)
    assert not is_for_all("Reads file:///home/user/project/", roots)
