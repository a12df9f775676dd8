from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.catalog.names import Names, NamesMode
from hub.config.records import moved, names_record, recorded, settled
from hub.paths.resolve import Flavour
from hub.system.machine import Machine, OsDisk
from hub.system.private_file import StateFile
from hub.values import ServerName
from tests.kit.fakes import FakeClock


def servers(text: str) -> list[ServerName]:
    return [ServerName(name) for name in text.split()]


class Starts:
    """Starts of a hub with one config file, one after another."""

    def __init__(self, top: Path) -> None:
        self.record = StateFile(top / "state/bare-names.json")
        self.config = top / "hub.yaml"
        self.logged: list[str] = []

    def names(self, text: str, mode: NamesMode = "auto") -> Names:
        """Return the names with these servers, and keep what was logged."""
        known = servers(text)
        with capture_logs() as logs:
            found = settled(self.record, self.config, known, mode)
        self.logged = [entry["event"] for entry in logs]
        return Names(known, mode, None if found is None else found.server)


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


@pytest.mark.parametrize("order", ["files git", "git files", "git files web"])
def test_the_server_that_was_the_only_one_has_the_aliases_in_any_order(
    starts: Starts, order: str
) -> None:
    assert starts.names("files").bare
    assert starts.logged == []
    assert starts.names(order).alias_server == "files"
    assert "permissions saved in clients do not match the new names" in starts.logged[0]
    assert starts.names(order).alias_server == "files"
    assert starts.logged == []


def test_several_servers_from_the_start_have_no_aliases(starts: Starts) -> None:
    assert starts.names("files git").alias_server is None
    assert starts.record.read() == {}


def test_no_other_server_gets_the_names_when_the_first_one_goes(starts: Starts) -> None:
    starts.names("files")
    starts.names("files git")
    assert starts.names("git web").alias_server is None
    only = starts.names("git")
    assert not only.bare
    assert "`names: never` gives them to it" in starts.logged[0]
    assert starts.names("git web").alias_server is None
    assert starts.names("files").bare
    assert starts.names("web files").alias_server == "files"


def test_a_server_that_is_renamed_before_there_was_another_one_keeps_its_names(
    starts: Starts,
) -> None:
    starts.names("filesystem")
    assert starts.names("files").bare
    assert starts.names("git files").alias_server == "files"


def test_names_that_were_of_several_servers_are_nobodys_aliases(starts: Starts) -> None:
    starts.names("files")
    starts.names("files git", "never")
    assert starts.names("files git").alias_server is None


def test_the_operator_can_give_the_names_to_another_server(starts: Starts) -> None:
    starts.names("files")
    starts.names("files git")
    assert starts.names("git", "never").bare
    assert starts.names("git").bare
    assert starts.names("git web").alias_server == "git"


def test_with_names_always_there_are_no_aliases_and_nothing_is_recorded(starts: Starts) -> None:
    starts.names("files", "always")
    assert starts.record.read() == {}
    assert starts.names("files git").alias_server is None
    starts.names("web")
    assert starts.names("web git", "always").alias_server is None
    assert starts.logged == []


def test_each_config_has_its_own_record(tmp_path: Path) -> None:
    one, other = Starts(tmp_path), Starts(tmp_path)
    other.config = tmp_path / "other.yaml"
    one.names("files")
    other.names("git")
    assert one.names("files git").alias_server == "files"
    assert other.names("files git").alias_server == "git"


def test_a_config_is_known_by_its_path_whatever_it_links_to(tmp_path: Path) -> None:
    starts = Starts(tmp_path)
    (tmp_path / "1").write_text("")
    starts.config.symlink_to(tmp_path / "1")
    starts.names("files")
    starts.config.unlink()
    starts.config.symlink_to(tmp_path / "2")
    assert starts.names("files git").alias_server == "files"


def test_where_nothing_can_be_kept_there_are_no_aliases_and_the_log_says_so_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").write_text("")
    starts = Starts(tmp_path)
    assert starts.names("files").bare
    (said,) = starts.logged
    assert said.startswith("names without prefix are not remembered")
    assert starts.names("files git").alias_server is None
    assert starts.logged == []


def test_what_cannot_be_fixed_as_the_servers_own_is_no_alias(tmp_path: Path) -> None:
    starts = Starts(tmp_path)
    starts.names("files")
    # Read as ever, but too long a name for a new file beside it.
    long = tmp_path / "state" / ("x" * 250)
    starts.record = StateFile((tmp_path / "state/bare-names.json").rename(long))
    assert starts.names("git files").alias_server is None
    assert starts.logged[0].startswith("names without prefix are not remembered")


@pytest.mark.parametrize("entry", [7, {"server": 7}, {}])
def test_an_entry_that_is_none_counts_for_nothing(starts: Starts, entry: object) -> None:
    starts.record.write(str(starts.config), entry)  # pyright: ignore[reportArgumentType] - not of this hub
    assert recorded(starts.record, starts.config) is None
    assert starts.names("files git").alias_server is None


def test_the_record_is_in_the_hubs_state_directory(tmp_path: Path) -> None:
    clock = FakeClock()
    given = {"XDG_STATE_HOME": str(tmp_path)}
    machine = Machine(OsDisk(), Flavour.POSIX, given, "/", clock, clock)
    assert names_record(machine).path == tmp_path / "roots-hub/bare-names.json"
    nowhere = Machine(OsDisk(), Flavour.WINDOWS, {}, "C:\\", clock, clock)
    assert names_record(nowhere).path is None


def test_nobody_is_warned_of_names_that_have_not_moved(starts: Starts) -> None:
    assert moved(None, servers("files git"), "auto") == []
    starts.names("files")
    found = recorded(starts.record, starts.config)
    assert moved(found, servers("files"), "auto") == []
    assert moved(found, [], "auto") == []
    (said,) = moved(found, servers("git web"), "auto")
    assert "'files', which is gone" in said
