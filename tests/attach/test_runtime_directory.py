import os
from pathlib import Path

import pytest

from hub.attach.runtime_directory import (
    HubPlace,
    RuntimeDirectory,
    UnsafeDirectoryError,
    have_same_source,
    hub_name,
    of_command,
    of_config,
    runtime_paths,
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir(mode=0o700)
    return made


def opened(base: Path) -> RuntimeDirectory:
    return RuntimeDirectory.opened({"XDG_RUNTIME_DIR": str(base)})


def test_it_is_made_for_its_user_alone(base: Path) -> None:
    directory = opened(base)
    assert directory.path == f"{base}/roots-hub"
    assert (base / "roots-hub").stat().st_mode & 0o777 == 0o700
    assert directory.names() == []
    again = opened(base)
    assert os.fstat(again.descriptor).st_ino == os.fstat(directory.descriptor).st_ino
    directory.close()
    again.close()


def test_one_that_others_may_use_or_that_is_a_link_is_refused(base: Path, tmp_path: Path) -> None:
    place = base / "roots-hub"
    place.mkdir()
    place.chmod(0o750)
    with pytest.raises(UnsafeDirectoryError, match=r"others may use it \(mode 0750, not 0700\)"):
        opened(base)
    place.rmdir()
    (tmp_path / "other").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "other")
    with pytest.raises(UnsafeDirectoryError, match="it is a link"):
        opened(base)
    place.unlink()
    place.write_text("")
    with pytest.raises(UnsafeDirectoryError, match="no directory"):
        opened(base)
    with pytest.raises(UnsafeDirectoryError, match="no directory"):
        RuntimeDirectory.at(str(place))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_refused(base: Path) -> None:
    (base / "roots-hub").mkdir(mode=0o700)
    os.chown(base / "roots-hub", 12345, 12345)
    with pytest.raises(UnsafeDirectoryError, match="it belongs to another user"):
        opened(base)
    os.chown(base, 12345, 12345)
    paths = runtime_paths({"XDG_RUNTIME_DIR": str(base)})
    assert paths[0] == f"{base}/roots-hub"  # it is passed over: it is another user's


def test_without_a_runtime_directory_it_is_in_one_of_the_users_own_in_tmp() -> None:
    user = os.geteuid()
    found = runtime_paths({"XDG_RUNTIME_DIR": "relative", "TMPDIR": "/elsewhere"})
    assert found[-1].endswith(f"/roots-hub-{user}/roots-hub")
    assert not found[-1].startswith("/elsewhere")


def test_a_secret_is_new_each_time_and_readable_for_its_user_alone(base: Path) -> None:
    place = HubPlace(opened(base), "name")
    assert place.secret() == ""
    first = place.make_secret()
    assert place.secret() == first
    assert place.make_secret() != first
    file = base / "roots-hub/name.key"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(OSError, match="others may use it"):
        place.secret()
    file.unlink()
    file.symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic"):
        place.secret()
    place.directory.close()


def test_an_address_fits_into_a_socket_however_long_the_directory_is(base: Path) -> None:
    deep = base / ("d" * 100)
    deep.mkdir(mode=0o700)
    place = HubPlace(opened(deep), hub_name("x", "1.0"))
    if place.address.startswith("/proc/"):
        assert len(place.address) < 104
    place.directory.close()


def test_names_tell_configs_commands_and_versions_apart(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(".")
    (tmp_path / "other.yaml").symlink_to("hub.yaml")
    first, source = of_config("hub.yaml", str(tmp_path))
    assert of_config(f"{tmp_path}/link/hub.yaml", "/") == (first, source)
    assert of_config("other.yaml", str(tmp_path))[1] != source
    name = hub_name(source, "1.0")
    assert name == hub_name(source, "1.0")
    assert hub_name(source, "1.1") != name
    assert have_same_source(hub_name(source, "1.1"), name)
    assert of_command(["a", "b c"]) != of_command(["a", "b", "c"])
    assert not have_same_source(hub_name(of_command(["a"]), "1.0"), name)
