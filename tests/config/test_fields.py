from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from hub.config import fields
from hub.config.fields import LoadContext

CONTEXT = LoadContext(Path("/etc/${hub}"), "/home/u", {"X": "x", "EMPTY": "", "DIR": "/srv"})


def read(kind: Any, value: object) -> Any:
    return TypeAdapter[Any](kind).validate_python(value, context=CONTEXT)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "/etc/${hub}/a/b"),
        ("./a", "/etc/${hub}/a"),
        ("/a", "/a"),
        ("~", "/home/u"),
        ("~/a", "/home/u/a"),
        ("${DIR}/a", "/srv/a"),
        ("a~b", "/etc/${hub}/a~b"),
    ],
)
def test_b07_relative_paths_start_at_the_config_file(text: str, path: str) -> None:
    assert read(fields.PathText, text) == path


@pytest.mark.parametrize("text", ["", "~other/a", "${NO}", "${root}", "${EMPTY}"])
def test_a_path_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        read(fields.PathText, text)


def test_a_tilde_needs_a_home() -> None:
    with pytest.raises(ValidationError, match="only ~ and"):
        TypeAdapter(fields.PathText).validate_python("~/a", context=LoadContext(Path("/")))


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("npx", "npx"),
        ("/bin/x", "/bin/x"),
        ("./x", "/etc/$${hub}/./x"),
        ("bin/${X}", "/etc/$${hub}/bin/${X}"),
        ("${DIR}/x", "${DIR}/x"),
        ("~/x", "/home/u/x"),
    ],
)
def test_a_relative_command_starts_at_the_config_file_and_not_in_a_clients_root(
    text: str, command: str
) -> None:
    assert read(fields.CommandText, text) == command


@pytest.mark.parametrize(
    ("text", "place"),
    [("sub", "/etc/$${hub}/sub"), ("${root}/sub", "${root}/sub"), ("~", "/home/u")],
)
def test_a_configured_directory_is_a_template(text: str, place: str) -> None:
    assert read(fields.PlaceText, text) == place


def test_secrets_are_resolved_and_not_shown() -> None:
    secret = read(fields.Secret, "Bearer ${X}")
    assert secret.get_secret_value() == "Bearer x"
    assert "Bearer" not in repr(secret)
    for wrong in ("${EMPTY}", "${NO}", "${root}", 7):
        with pytest.raises(ValidationError):
            read(fields.Secret, wrong)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "10", True, None])
def test_times_are_numbers_above_zero(value: object) -> None:
    with pytest.raises(ValidationError):
        read(fields.Seconds, value)


def test_some_times_can_be_zero() -> None:
    assert read(fields.SecondsOrZero, 0) == 0
    assert read(fields.Seconds, 1) == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (fields.WebAddress, "ftp://x/"),
        (fields.WebAddress, "https:///x"),
        (fields.WebAddress, "http://[::1"),
        (fields.Pointer, "path"),
        (fields.CommandText, ""),
        (fields.ArgumentText, "--x=${roots}"),
        (fields.EnvText, "${roots}"),
        (fields.Count, 0),
        (fields.Count, True),
        (fields.Flag, "yes"),
        (fields.Port, 65536),
        (fields.Variable, "A=B"),
        (fields.Name, ""),
        (fields.Patterns, ["!"]),
    ],
)
def test_wrong_values_are_refused(kind: Any, value: object) -> None:
    with pytest.raises(ValidationError):
        read(kind, value)


def test_right_values_are_taken() -> None:
    assert read(fields.WebAddress, "https://x.example/${X}") == "https://x.example/x"
    assert read(fields.Pointer, "/a/*") == "/a/*"
    assert read(fields.Patterns, ["**/.env"]) == ("**/.env",)
    assert read(fields.ArgumentText, "${roots}") == "${roots}"


def test_off_is_what_yaml_made_of_it() -> None:
    assert fields.off_spelled_false(False) == "off"
    assert fields.mode_alone(False) == {"mode": "off"}
    assert fields.mode_alone({"mode": "x"}) == {"mode": "x"}
    assert fields.path_alone("a") == {"path": "a"}


def test_the_environment_is_not_in_a_repr() -> None:
    assert "srv" not in repr(CONTEXT)
