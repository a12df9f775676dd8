import pytest

from hub.core import vocabulary
from hub.core.vocabulary import NOT_PATHS, PATH_WORDS, PAYLOAD_WORDS, WEAK_WORDS


def test_words_are_lower_case_and_stand_in_one_list() -> None:
    lists = [PATH_WORDS, WEAK_WORDS, PAYLOAD_WORDS, NOT_PATHS]
    for n, words in enumerate(lists):
        assert all(word == word.lower() for word in words)
        for others in lists[n + 1 :]:
            assert not words & others


@pytest.mark.parametrize(
    ("pattern", "text", "says"),
    [
        ("SAYS_PATH", "Path to the file to read", True),
        ("SAYS_PATH", "The absolute or relative path", True),
        ("SAYS_PATH", "Working directory", True),
        ("SAYS_PATH", "Directory for reports", True),
        ("SAYS_PATH", "Branch to create the file in", False),
        ("STARTS_AS_PATH", "(Optional) Path to a file with the content", True),
        ("STARTS_AS_PATH", "Content for the file at this path", False),
        ("SAYS_OTHER", "Cookie path", True),
        ("SAYS_OTHER", "Only URLs with these URL paths", True),
        ("SAYS_OTHER", "Path of the file", False),
        ("SAYS_GLOB", "Optional glob, relative to the project", True),
        ("SAYS_GLOB", "global", False),
        ("SAYS_REGEX", "Regex patterns", True),
        ("MENTIONS_PATH", "a list of filter paths", True),
    ],
)
def test_descriptions_say_what_a_value_is(pattern: str, text: str, *, says: bool) -> None:
    assert bool(getattr(vocabulary, pattern).search(text)) is says
