import tomllib

import pytest

from hub.config.source.places import SyntaxMistakesError
from hub.config.source.toml import read_toml


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_inline_table_may_have_several_lines(newline: str) -> None:
    lines = ["a = {  # first, {", '  "b" = "c # }",', "  d = [1, 2,],", "  # last,", "}", "e = 1"]
    assert read_toml(newline.join(lines)) == {"a": {"b": "c # }", "d": [1, 2]}, "e": 1}


def test_other_toml_is_read_as_ever() -> None:
    text = 'a = """\n{\n"""\nb = [\n  1, # one\n]\n[c]\n'
    assert read_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize("text", ["a = {", "a = {\n", "a = 1 b", "a = {\n b\n}"])
def test_what_is_no_toml_is_an_error(text: str) -> None:
    with pytest.raises(SyntaxMistakesError):
        read_toml(text)
