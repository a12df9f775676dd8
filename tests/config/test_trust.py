from __future__ import annotations

import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.app.machine import place_of, this_machine
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.own_files import found_in
from hub.config.records import TrustRecord, digest_of, trust_record
from hub.errors import ConfigError, StartError
from hub.paths.resolve import Flavour, parts_of
from tests.kit.trees import plant

TEXT = "version: 1\nservers: {a: {command: x}}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    top = plant(tmp_path, "project/", "state/")
    file = top / "project" / "hub.yaml"
    file.write_text(TEXT)
    return file


@pytest.fixture
def record(config: Path) -> TrustRecord:
    return TrustRecord(config.parent.parent / "state" / "roots-hub" / "trusted.json")


def test_a_config_is_trusted_with_its_very_text(config: Path, record: TrustRecord) -> None:
    digest = digest_of(config)
    assert not record.has(config, digest)
    assert not record.knows(config)
    record.add(config, digest)
    assert record.has(config, digest)
    config.write_text(TEXT + "# changed\n")
    assert not record.has(config, digest_of(config))
    assert record.knows(config)


def test_each_file_is_trusted_for_itself(config: Path, record: TrustRecord) -> None:
    record.add(config, digest_of(config))
    other = config.parent.parent / "hub.yaml"
    other.write_text(TEXT)
    assert not record.has(other, digest_of(other))
    record.add(other, digest_of(other))
    assert record.has(config, digest_of(config))


def test_a_link_to_a_trusted_config_is_not_trusted(config: Path, record: TrustRecord) -> None:
    record.add(config, digest_of(config))
    link = config.parent.parent / "hub.yaml"
    link.symlink_to(config)
    assert not record.has(link, digest_of(link))


def test_the_record_is_its_owners_alone(config: Path, record: TrustRecord) -> None:
    record.add(config, digest_of(config))
    folder = config.parent.parent / "state" / "roots-hub"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "trusted.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("which", ["", "trusted.json"])
def test_a_record_that_others_may_write_counts_for_nothing(
    which: str, config: Path, record: TrustRecord
) -> None:
    record.add(config, digest_of(config))
    folder = config.parent.parent / "state" / "roots-hub"
    (folder / which).chmod(0o777)
    with capture_logs() as logged:
        assert not record.has(config, digest_of(config))
    assert [line["log_level"] for line in logged] == ["warning"]
    with capture_logs():
        record.add(config, digest_of(config))
    assert record.has(config, digest_of(config))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 1}'])
def test_a_record_that_is_none_trusts_nothing(text: str, config: Path, record: TrustRecord) -> None:
    record.add(config, digest_of(config))
    (config.parent.parent / "state" / "roots-hub" / "trusted.json").write_text(text)
    assert not record.has(config, digest_of(config))


def test_a_record_that_cannot_be_written_says_what_to_do(config: Path) -> None:
    with pytest.raises(StartError, match=r"--config hub\.yaml"):
        TrustRecord(config / "below" / "trusted.json").add(config, "x")


def test_without_a_place_for_it_nothing_is_remembered(config: Path) -> None:
    record = TrustRecord(None)
    record.add(config, digest_of(config))
    assert not record.knows(config)


def test_no_call_reaches_the_record(tmp_path: Path) -> None:
    machine = this_machine({"XDG_STATE_HOME": f"{tmp_path}/state"})
    record, place = trust_record(machine), place_of(machine)
    file = tmp_path / "hub.yaml"
    file.write_text(TEXT)
    record.add(file, digest_of(file))
    (written,) = (tmp_path / "state").rglob("trusted.json")
    assert place.own is not None
    rules = place.own.rules_for("read", writes=False)
    assert rules.has(str(written), parts_of(str(written), Flavour.POSIX), machine.links)


def test_only_a_file_is_found(tmp_path: Path) -> None:
    assert found_in(tmp_path) is None
    (tmp_path / "hub.yaml").mkdir()
    assert found_in(tmp_path) is None


def test_a_config_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        digest_of(tmp_path / "hub.yaml")


def test_only_the_text_that_was_trusted_is_loaded(config: Path) -> None:
    context = LoadContext(config.parent, digest=digest_of(config))
    assert list(load_config("hub.yaml", context).config.servers) == ["a"]
    config.write_text(TEXT.replace("a:", "b:"))
    with pytest.raises(ConfigError, match=r"hub\.yaml: changed since it was trusted"):
        load_config("hub.yaml", context)
