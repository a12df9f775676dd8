import pytest

from hub.guard.keys import descriptions
from hub.guard.keys.vocabulary import NOT_PATHS, PATH_WORDS, PAYLOAD_WORDS, WEAK_WORDS


def test_words_are_lower_case_and_in_one_list_only() -> None:
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
        ("SAYS_OTHER", "Value for the 'message-id' path segment", True),
        ("SAYS_OTHER", "Path segments to join", False),
        ("SAYS_OTHER", "Relative Microsoft Graph path starting with '/'", True),
        ("SAYS_OTHER", "Path of the file", False),
        ("SAYS_OTHER", "Path for the ALB health checks", True),
        ("SAYS_OTHER", "Path for health check scripts", False),
        ("SAYS_OTHER", "Path to the health check", False),
        ("SAYS_FILE", "Local file path or URL path", True),
        ("SAYS_FILE", "Path of the API endpoint", False),
        ("SAYS_CODE", "The Python code to run", True),
        ("SAYS_CODE", "Country code for the address", False),
        ("SAYS_CODE", "A JavaScript function to be evaluated", True),
        ("SAYS_CODE", "Directory with code to run", False),
        ("SAYS_CODE", "Folder code to run", False),
        ("SAYS_CODE", "JavaScript file to run", False),
        ("SAYS_CONTENT", "The full contents of the file", True),
        ("SAYS_CONTENT", "File with the contents of the page", False),
        ("OR_PATH", "Markdown content, local .md file path, or a URL", True),
        ("OR_PATH", "File path or inline YAML", True),
        ("OR_PATH", "SQL, or a path to a file", True),
        ("OR_PATH", "Instructions or file path", True),
        ("OR_PATH", "CSS file path, or inline CSS", True),
        ("OR_PATH", "Path or title of the note", True),
        ("OR_PATH", "Text to put behind each file path", False),
        ("OR_PATH", "A name or file path to look for", False),
        ("OR_PATH", "Query to search file paths for", False),
        ("OR_PATH", "Text to write to the file path", False),
        ("OR_PATH", "Term to match against symbols, summaries, and paths", False),
        ("SAYS_GLOB", "Optional glob, relative to the project", True),
        ("SAYS_GLOB", "global", False),
        ("SAYS_REGEX", "Regex patterns", True),
        ("SAYS_REGEX", "A jq filter to apply", True),
        ("SAYS_REGEX", "Path of the jq binary", False),
        ("MENTIONS_PATH", "a list of filter paths", True),
    ],
)
def test_descriptions_say_what_a_value_is(pattern: str, text: str, *, says: bool) -> None:
    assert bool(getattr(descriptions, pattern).search(text)) is says
