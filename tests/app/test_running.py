from __future__ import annotations

import gc
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from pydantic import SecretStr
from structlog.testing import capture_logs
from structlog.typing import EventDict

from hub.app.hub import INFO
from hub.app.machine import Setting, this_machine
from hub.app.running import ConnectionBuilder, open_hub, running_hub
from hub.config.inheritance import offered
from hub.config.models import HubConfig
from hub.config.own_files import state_directory
from hub.errors import ConfigError, HubError, StartError, leaves
from hub.paths.resolve import Entry
from hub.protocol.http_headers import token_hash
from hub.system.machine import OsDisk
from hub.system.shutdown import Shutdown
from tests.kit.fakes import ECHO, FakeChild, RecordingOutlet
from tests.kit.scripted import scripted
from tests.kit.trees import plant


def read(**keys: Any) -> HubConfig:
    return HubConfig.model_validate({"version": 1, "servers": {"s": {"command": "x"}}, **keys})


# What children inherit


def test_children_inherit_neither_the_hubs_settings_nor_its_token() -> None:
    environment = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "HUB_TOKEN": "s3cret",
        "HUB_ROOTS": "/r",
        "HUB_CONFIG": "hub.yaml",
        "MY_TOKEN": "s3cret",
        "OTHER_TOKEN": "other",
        "HUB_ELSE": "kept",
    }
    config = read(listen={"token": "s3cret"})
    kept = {"PATH": "/bin", "HOME": "/home/u", "OTHER_TOKEN": "other", "HUB_ELSE": "kept"}
    assert offered(config, environment) == kept
    assert offered(read(), environment) == {**kept, "MY_TOKEN": "s3cret"}
    assert len(environment) == 8


def test_children_inherit_no_named_token_whether_the_config_has_it_or_its_hash() -> None:
    tokens = [{"name": "a", "token": "of-a"}, {"name": "b", "sha256": token_hash("of-b")}]
    environment = {"PATH": "/bin", "ONE": "of-a", "TWO": "of-b", "THREE": "of-c"}
    kept = {"PATH": "/bin", "THREE": "of-c"}
    assert offered(read(listen={"tokens": tokens}), environment) == kept


def test_a_token_that_is_no_variables_value_removes_nothing() -> None:
    config = read()
    listen = config.listen.model_copy(update={"token": SecretStr("s3cret")})
    config = config.model_copy(update={"listen": listen})
    assert offered(config, {"EMPTY": "", "A": "s3"}) == {"EMPTY": "", "A": "s3"}


@pytest.mark.live
async def test_real_children_are_given_that_environment() -> None:
    environment = {"HUB_TOKEN": "s3cret", "MINE": "s3cret", "PATH": "/bin"}
    config = read(listen={"token": "s3cret"})
    async with running_hub(config, Setting(), environment=environment) as hub:
        services = hub.services
        assert [spec.inherits for spec in services.servers.values()] == [{"PATH": "/bin"}]
        assert services.machine.environment == environment


# Starting


async def failing(
    config: HubConfig, setting: Setting | None = None, environment: Mapping[str, str] | None = None
) -> HubError:
    """Start a hub that cannot start, and return why; nothing was opened on the way."""
    child = FakeChild(ECHO)
    try:
        async with running_hub(
            config, setting or Setting(), environment=environment or {}, open_child=child.opened
        ):
            pytest.fail("it started")
    except BaseException as error:  # noqa: BLE001 - looked at below
        assert child.links == []
        (known,) = leaves(error)
        assert isinstance(known, HubError), known
        return known


async def test_a_root_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    gone = f"{tmp_path}/gone"
    error = await failing(read(), Setting(given=[gone]))
    assert isinstance(error, StartError)
    assert error.what == f"--root {gone}: there is no {gone}"
    error = await failing(read(), environment={"HUB_ROOTS": gone})
    assert isinstance(error, StartError)
    assert error.what == f"HUB_ROOTS {gone}: there is no {gone}"


async def test_a_hub_whose_only_server_is_unsafe_does_not_start() -> None:
    server = {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "/etc"]}
    error = await failing(read(servers={"files": server}))
    assert isinstance(error, ConfigError)
    assert error.faults[0].said == "servers.files.args[1]: /etc: Path is not safe for sharing"


async def test_an_audit_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "gone/audit.jsonl"
    error = await failing(read(audit={"file": str(path)}))
    assert isinstance(error, StartError)
    assert error.what.startswith(f"audit.file {path}: ")
    assert error.fix == "Name a file that the hub may write."


async def test_a_slow_disk_does_not_hold_the_loop_while_an_audit_file_is_opened(
    tmp_path: Path,
) -> None:
    path, threads = tmp_path / "audit.jsonl", list[str]()
    path.touch(mode=0o644)  # that is logged where the file is opened

    def note(_logger: object, _method: str, event: EventDict) -> EventDict:
        threads.append(threading.current_thread().name)
        return event

    with capture_logs(processors=[note]) as logged:
        config, opened = read(audit={"file": str(path)}), FakeChild(ECHO).opened
        async with running_hub(config, Setting(), environment={}, open_child=opened):
            pass
    (at,) = (at for at, one in enumerate(logged) if "by other users" in one["event"])
    assert threads[at] != threading.main_thread().name


class AskedDisk(OsDisk):
    """A disk that notes which threads ask it."""

    def __init__(self) -> None:
        self.asked_by: set[threading.Thread] = set()

    def entry(self, path: str) -> Entry | None:
        self.asked_by.add(threading.current_thread())
        return super().entry(path)


async def test_a_slow_disk_does_not_hold_the_loop_while_another_client_gets_its_view(
    tmp_path: Path,
) -> None:
    disk = AskedDisk()
    machine = replace(this_machine({}), links=disk)
    async with open_hub(machine, Shutdown(), FakeChild(ECHO).opened) as hub:
        disk.asked_by.clear()
        await hub.view(read(roots={"fallback": [str(tmp_path)]}), Setting(), machine)
    assert disk.asked_by
    assert threading.main_thread() not in disk.asked_by


async def test_logins_are_kept_where_the_hub_looks_for_them_whichever_client_comes_first(
    tmp_path: Path,
) -> None:
    own, other = (this_machine({"XDG_STATE_HOME": f"{tmp_path}/{one}"}) for one in "ab")
    async with open_hub(own, Shutdown(), FakeChild(ECHO).opened) as hub:
        view = await hub.view(read(), Setting(), other)
        logins = view.services.logins
    assert logins is not None
    assert logins.runs.directory == state_directory(own)


async def test_an_audit_file_that_is_a_link_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.symlink_to(tmp_path / "elsewhere")
    error = await failing(read(audit={"file": str(path)}))
    assert isinstance(error, StartError)
    assert str(error) == f"audit.file {path}: it is a symbolic link\nName the file itself."


# The audit log leaves its file to the collector.
@pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")
async def test_calls_of_clients_are_audited(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with scripted(FakeChild(ECHO), config={"audit": {"file": str(file)}}) as hub:
        client = await hub.greeted()
        await client.call("echo", text="hi")
    gc.collect()
    (line,) = file.read_text().splitlines()
    record = json.loads(line)
    assert (record["tool"], record["verdict"], record["principal"]) == ("echo", "admitted", "test")
    assert "hi" not in line


async def test_the_configs_settings_reach_the_sessions(tmp_path: Path) -> None:
    config = read(roots={"timeout": 3, "debounce": 0.5, "allow_unsafe": True})
    async with running_hub(
        config, Setting(), environment={}, open_child=FakeChild(ECHO).opened
    ) as hub:
        services = hub.services
        settings = services.settings
        assert (settings.timeout, settings.debounce) == (3, 0.5)
        assert settings.unsafe is not None
        assert not settings.unsafe.refuses(("etc",))
        assert services.info is INFO


async def test_a_ceiling_of_the_command_line_bounds_clients(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/")
    setting = Setting(ceiling=[str(top / "a")])
    async with running_hub(
        read(), setting, environment={}, open_child=FakeChild(ECHO).opened
    ) as hub:
        services = hub.services
        ceiling = services.operator.roots().ceiling
        assert ceiling is not None
        assert ceiling.paths == (f"{top}/a",)


async def test_each_client_gets_a_conversation_of_its_own() -> None:
    async with scripted(FakeChild(ECHO)) as hub, anyio.create_task_group() as tasks:
        open_connection = ConnectionBuilder(hub.services)
        made = [open_connection(RecordingOutlet(), tasks, name) for name in ("one", "two")]
        assert [front.session.principal for front in made] == ["one", "two"]
        assert made[0].session.key != made[1].session.key
        tasks.cancel_scope.cancel()


async def test_when_it_ends_its_children_have_ended() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        client = await hub.greeted()
        await client.call("echo", text="hi")
        assert child.closed == 0
    assert child.closed == 1
