import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from hub.config.fields import LoadContext
from hub.config.listening.listen import NamedToken
from hub.config.load import load_config
from hub.errors import ConfigError

utc = partial(datetime, tzinfo=UTC)
SERVERS = "servers: {files: {command: npx}}\n"


def load(folder: Path, expires: str) -> NamedToken:
    file = folder / "hub.yaml"
    entry = f'{{name: anna, token: "0123456789abcdef", expires: {expires}}}'
    file.write_text(f"version: 1\nlisten: {{tokens: [{entry}]}}\n{SERVERS}")
    loaded = load_config(str(file), LoadContext(folder, "/home/u", {}))
    return loaded.config.listen.tokens[0]


@pytest.mark.parametrize(
    ("written", "end"),
    [
        ("2027-01-31", utc(2027, 2, 1)),
        ("'2027-01-31'", utc(2027, 2, 1)),
        ("2027-12-31", utc(2028, 1, 1)),
        ("2027-01-31T18:00:00Z", utc(2027, 1, 31, 18)),
        ("2027-01-31T18:00:00+01:00", utc(2027, 1, 31, 17)),
        ("2027-01-31 18:00:00 +01:00", utc(2027, 1, 31, 17)),
        ("'2027-01-31 18:00:00-08:30'", utc(2027, 2, 1, 2, 30)),
        ("'2027-01-31T18:00Z'", utc(2027, 1, 31, 18)),
        ("2027-01-31T18:00+01:00", utc(2027, 1, 31, 17)),
        ("'2027-01-31T18:00:00.5Z'", utc(2027, 1, 31, 18, 0, 0, 500_000)),
    ],
)
def test_a_date_is_the_end_of_that_day_and_a_time_has_a_zone(
    tmp_path: Path, written: str, end: datetime
) -> None:
    found = load(tmp_path, written)
    assert found.expires == end
    assert NamedToken.model_validate(found.model_dump(exclude_unset=True)) == found


def test_json_and_toml_have_it_as_well(tmp_path: Path) -> None:
    token = {"name": "anna", "sha256": "0" * 64, "expires": "2027-01-31"}
    whole = {"version": 1, "listen": {"tokens": [token]}, "servers": {"s": {"command": "x"}}}
    (tmp_path / "hub.json").write_text(json.dumps(whole))
    toml = 'version = 1\n[servers.s]\ncommand = "x"\n[[listen.tokens]]\nname = "anna"\n'
    (tmp_path / "hub.toml").write_text(f'{toml}sha256 = "{"0" * 64}"\nexpires = 2027-01-31\n')
    for name in ("hub.json", "hub.toml"):
        context = LoadContext(tmp_path, "/home/u", {})
        found = load_config(str(tmp_path / name), context).config.listen.tokens[0]
        assert found.expires == utc(2027, 2, 1)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("2027-01-31 18:00:00", "has a time without a zone"),
        ("'2027-01-31T18:00'", "has a time without a zone"),
        ("'2027-02-30'", "does not exist"),
        ("2027-02-30", "does not exist"),
        ("'2027-01-31T25:00Z'", "does not exist"),
        ("9999-12-31", "too far away"),
        ("'0001-01-01T00:00+05:00'", "too far away"),
        # Left empty it must not mean that the token never ends.
        ("", "has no value"),
        ("null", "has no value"),
        ("''", "must be a date"),
        ("never", "must be a date"),
        ("31.01.2027", "must be a date"),
        ("2027-1-31", "must be a date"),
        ("2027-W04-7", "must be a date"),
        ("20270131", "must be a date"),
        ("'20270131'", "must be a date"),
        ("1801440000", "must be a date"),
        ("true", "must be a date"),
        ("[2027-01-31]", "must be a date"),
        ("'2027-01-31T18:00:00 Europe/Vienna'", "must be a date"),
    ],
)
def test_what_says_no_moment_for_certain_is_an_error(
    tmp_path: Path, written: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, written)
    assert why in str(caught.value)
    assert caught.value.faults[0].fix
    assert "0123456789abcdef" not in str(caught.value)


def test_a_token_that_has_ended_or_ends_within_a_week_is_told(tmp_path: Path) -> None:
    token = load(tmp_path, "2027-01-31")
    end = utc(2027, 2, 1)
    assert token.near_end(end - timedelta(days=7, seconds=1)) is None
    told = "the token of anna ends within 7 days (2027-02-01 00:00 UTC)"
    assert [token.near_end(end - timedelta(days)) for days in (7, 1)] == [told, told]
    ended = "the token of anna has ended (2027-02-01 00:00 UTC): it lets nobody in"
    assert [token.near_end(end + timedelta(days)) for days in (0, 100)] == [ended, ended]
    long_ago = load(tmp_path, "0001-01-01")
    assert str(long_ago.near_end(end)).startswith("the token of anna has ended")
    assert NamedToken(name="ci", sha256="0" * 64).near_end(end) is None


@pytest.mark.parametrize(
    ("listen", "at"),
    [
        ("token: 's3cret '", "listen.token"),
        ('token: "s3cret\\r"', "listen.token"),
        ("tokens: [{name: anna, token: ' s3cret'}]", "listen.tokens[0].token"),
    ],
)
def test_a_token_that_no_request_can_have_is_refused(tmp_path: Path, listen: str, at: str) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text(f"version: 1\nlisten: {{{listen}}}\n{SERVERS}")
    with pytest.raises(ConfigError) as caught:
        load_config(str(file), LoadContext(tmp_path, "/home/u", {}))
    what = f"{at}: begins or ends with a blank, or has a character that is not shown"
    assert caught.value.faults[0].said == f"{file}: {what}"
    assert caught.value.faults[0].fix == "Take it out: no request can have it."
    assert "s3cret" not in str(caught.value)
