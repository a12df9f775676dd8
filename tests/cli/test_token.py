import json
from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from hub.cli import token as module
from hub.config.listening.listen import NamedToken
from hub.errors import UsageError
from hub.protocol.http_headers import token_hash


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


def test_a_token_for_some_days_ends_with_the_last_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for days in (1, 90, 36_500):
        before = datetime.now(UTC)
        assert run("ci", "--days", str(days)) == 0
        shown = capsys.readouterr().err.partition("\n")[2]
        (entry,) = yaml.safe_load(shown)["listen"]["tokens"]
        expires = NamedToken.model_validate(entry).expires
        assert expires is not None
        least = timedelta(days)
        assert least <= expires - before <= least + timedelta(days=1, minutes=1)
        assert run("ci", "--days", str(days), "--json") == 0
        assert json.loads(capsys.readouterr().out)["expires"] == str(entry["expires"])
    assert run("ci") == 0
    assert "expires" not in capsys.readouterr().err


@pytest.mark.parametrize("days", ["0", "-1", "1.5", "x", "", "36501", "²", "2027-01-31"])
def test_what_is_no_number_of_days_is_an_error(
    days: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run("ci", f"--days={days}")
    assert caught.value.code == 2
    assert "is not a number of days, from 1 to 36500" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "a b", "-x", "local", "stdio", "token", "x" * 65, "a\nb"])
def test_a_name_that_the_config_would_refuse_is_an_error(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(*(["--", name] if name.startswith("-") else [name]))
    assert repr(name) in caught.value.what
    assert "such as ci" in caught.value.fix
