import json
from argparse import ArgumentParser

import pytest

from hub.cli import token as module
from hub.errors import UsageError
from hub.protocol.bearer import token_hash


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    module.register(parser.add_subparsers(required=True))
    options = parser.parse_args(["token", "new", *arguments])
    return options.perform(options)


def test_a_token_is_alone_on_stdout_and_the_config_gets_its_hash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("anna@example.com") == 0
    out, err = capsys.readouterr()
    made = out.strip()
    assert out == f"{made}\n"
    assert f'    - {{name: anna@example.com, sha256: "{token_hash(made)}"}}\n' in err
    assert made not in err


def test_each_token_is_another_of_256_bits(capsys: pytest.CaptureFixture[str]) -> None:
    made: set[str] = set()
    for _ in range(3):
        assert run("ci", "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["sha256"] == token_hash(found["token"])
        assert len(found["token"]) == len("rh_") + 43
        made.add(found["token"])
    assert len(made) == 3


@pytest.mark.parametrize("name", ["", "a b", "-x", "local", "stdio", "token", "x" * 65, "a\nb"])
def test_a_name_that_the_config_would_refuse_is_an_error(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(*(["--", name] if name.startswith("-") else [name]))
    assert repr(name) in caught.value.what
    assert "such as ci" in caught.value.fix
