import pytest

from hub.guard.text.prose import is_prose


@pytest.mark.parametrize(
    "text",
    [
        "import x from '../y'\nfoo bar baz\n  return x",
        "FROM python\nCOPY . /app\nRUN make it\nRUN make test",
        "int main() {\n  return 0;\n}\n",
        "- a: ../x\n- b: y",
        "it is in ../y or so",
    ],
)
def test_code_yaml_and_sentences_are_prose(text: str) -> None:
    assert is_prose(text)


@pytest.mark.parametrize(
    "text",
    [
        "./see notes.txt\n../private/secret.txt now",
        "notes.txt ../private/secret.txt\na.b ../x",
        "~/a b.c\n/etc/x y.z",
        "C:\\a b.c\n..\\x y.z",
        "../y is where it is",
    ],
)
def test_lines_with_paths_are_lists(text: str) -> None:
    assert not is_prose(text)
