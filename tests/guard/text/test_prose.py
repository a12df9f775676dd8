import pytest

from hub.guard.text.prose import is_list_of_words, is_prose, is_yaml


@pytest.mark.parametrize(
    "text",
    [
        "import x from '../y'\nfoo bar baz\n  return x",
        "FROM python\nCOPY . /app\nRUN make it\nRUN make test",
        "int main() {\n  return 0;\n}\n",
        "- a: ../x\n- b: y",
        "it is in ../y or so",
        "for x in y:\n  os.remove(x)\n  return f(x)",
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
        "notes.txt /srv/app/link\nnotes.txt x",
        "notes.txt src/%2e%2e\na.b link",
        "<curl: --data=@/etc/x>",
        "concat:../private/my big secret file.txt",
        "text:/srv/the name of it",
    ],
)
def test_lines_with_paths_are_lists(text: str) -> None:
    assert not is_prose(text)


@pytest.mark.parametrize(
    ("text", "are_settings"),
    [
        ("Driver={The Name of It (*.a, *.b)};DBQ=../x", True),
        ("Data Source=the name of it.db;Version=3", True),
        ("Driver={The Name of It};and so on", False),
        ("a = the name of it; b = 5", False),
        ("the sum is a=b; and so on", False),
    ],
)
def test_settings_are_no_prose(text: str, *, are_settings: bool) -> None:
    assert is_prose(text) is not are_settings


def test_at_least_half_of_the_lines_of_yaml_have_keys() -> None:
    assert is_yaml("a: ../x\n- ../y")
    assert not is_yaml("a: ../x\n- ../y\n- ../z")


@pytest.mark.parametrize("text", ["<(cat link/x)", ">(tee link/x)"])
def test_a_file_that_a_shell_makes_of_a_command_is_a_list(text: str) -> None:
    assert is_list_of_words(text)


def test_three_words_are_no_sentence() -> None:
    assert is_prose("it is in ../y")
    assert not is_prose("is in ../y")
