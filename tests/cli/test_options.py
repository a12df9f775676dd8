from argparse import ArgumentParser, Namespace
from logging import INFO, Formatter, LogRecord
from pathlib import Path

import pytest

from hub.cli.options import (
    add_config_option,
    add_root_option,
    configured,
    file_server_config,
    load_context,
    log_file_of,
    log_to_file,
    required_config,
    watched_config,
)
from hub.config.models import StdioServer
from hub.errors import ConfigError
from hub.system.machine import Kernel

INLINE = '{"mcpServers": {"inline": {"command": "x"}}}'


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        text = f"version: 1\nservers:\n  {name}:\n    command: x\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def parsed(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    add_config_option(parser)
    add_root_option(parser)
    return parser.parse_args(arguments)


def test_the_option_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured(parsed()) is None
    monkeypatch.setenv("HUB_CONFIG", "two.yaml")
    assert list(required_config(parsed())[0].servers) == ["two"]
    assert list(required_config(parsed("--config", "one.yaml"))[0].servers) == ["one"]
    monkeypatch.setenv("HUB_CONFIG", "")
    assert configured(parsed()) is None


def test_a_config_in_the_variable_itself_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_CONFIG", INLINE)
    assert list(required_config(parsed())[0].servers) == ["inline"]


def test_there_is_no_search_path(directory: Path) -> None:
    (directory / "hub.yaml").write_text((directory / "one.yaml").read_text())
    with pytest.raises(ConfigError) as caught:
        required_config(parsed())
    assert caught.value.faults[0].said == "no config"
    assert caught.value.faults[0].fix == "There is one here: --config hub.yaml"


def test_what_the_config_warns_of_comes_with_it(directory: Path) -> None:
    entry = '{"mcpServers": {"a": {"command": "x", "disabled": true}, "b": {"command": "x"}}}'
    (directory / "client.json").write_text(entry)
    config, warnings = required_config(parsed("--config", "client.json"))
    assert "b" in config.servers
    assert all(warning.startswith("client.json: ") for warning in warnings)


def test_a_config_is_read_against_this_process(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("MINE", "yes")
    context = load_context()
    assert (context.directory, context.home) == (directory, "/home/u")
    assert context.environment["MINE"] == "yes"
    monkeypatch.setenv("MINE", "no")
    assert context.environment["MINE"] == "yes"


def test_a_file_is_watched_and_nothing_else_is(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched_config(parsed()) is None
    assert watched_config(parsed("--config", INLINE)) is None
    watched = watched_config(parsed("--config", "one.yaml"))
    assert watched is not None
    assert (watched.source, watched.context.directory) == ("one.yaml", directory)
    assert watched.seen == watched.look()


def test_a_log_file_that_was_moved_away_is_made_anew(directory: Path) -> None:
    log = log_to_file(Path("hub.log"))
    log.setFormatter(Formatter("%(message)s"))

    def say(text: str) -> None:
        log.emit(LogRecord("hub", INFO, "", 0, text, None, None))
        log.flush()

    say("first")
    Path("hub.log").rename("hub.log.1")
    say("second")
    Path("hub.log").unlink()
    Path("hub.log").mkdir()
    say("third")
    Path("hub.log").rmdir()
    Path("hub.log").symlink_to(directory / "one.yaml")
    say("fourth")
    Path("hub.log").unlink()
    say("fifth")
    assert Path("hub.log.1").read_text() == "first\n"
    assert Path("hub.log").read_text() == "fifth\n"
    assert Path("hub.log").stat().st_mode & 0o777 == 0o600
    assert "fourth" not in Path("one.yaml").read_text()


def test_a_log_file_is_named_in_full(directory: Path) -> None:
    assert log_file_of(Namespace(log_file="hub.log")) == str(directory / "hub.log")
    assert log_file_of(Namespace(log_file=None)) is None


def test_roots_are_given_one_by_one_and_forgotten_after() -> None:
    assert parsed("--root", "a", "--root", "b").root == ["a", "b"]
    assert parsed().root == []


@pytest.mark.parametrize(("abi", "mode"), [(0, "off"), (1, "off"), (2, "auto"), (7, "auto")])
def test_the_embedded_file_server_is_confined_where_it_can_still_move_files(
    abi: int, mode: str
) -> None:
    # A link that is swapped after the check must not lead it outside.
    (server,) = file_server_config(Kernel(abi)).servers.values()
    assert isinstance(server, StdioServer)
    assert server.confine.mode == mode
    # As root it serves other users' folders.
    assert server.confine.allow == (("any_owner",) if mode == "auto" else ())
