"""What a running hub makes of a config that changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from hub.config import watch
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext, operator_roots
from hub.config.watch import ConfigWatch, Watched, needs_restart, watching
from hub.paths.resolve import Flavour
from hub.roots.effective import OperatorRoots
from hub.sessions.operator_roots import Operator
from hub.system.disk import OsDisk
from hub.system.machine import Machine
from tests.kit.fakes import FakeClock
from tests.kit.trees import plant

SERVERS = "servers: {files: {command: files-server}}\n"


class Followed:
    """An operator's roots that follow a config file; counts the change notifications."""

    def __init__(self, top: Path, text: str, given: tuple[str, ...] = ()) -> None:
        self.file = top / "hub.yaml"
        self.file.write_text(text)
        context = LoadContext(top, str(top), {})
        self.watched = Watched.now("hub.yaml", context)
        self.running = load_config("hub.yaml", context).config
        links = OsDisk()
        place = PathContext(links, Flavour.POSIX, None, str(top), {})
        self.roots_of = partial(operator_roots, given=given, place=place)
        machine = Machine(links, Flavour.POSIX, {}, str(top), FakeClock(), FakeClock())
        self.operator = Operator(self.roots_of(self.running.roots), {}, machine)
        self.watch = ConfigWatch(self.watched, self.running, self.roots_of, self.operator)
        self.times = 0
        self.changed = anyio.Event()
        self.operator.follow(self._told)

    def _told(self) -> None:
        self.times += 1
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def becomes(self, text: str) -> list[Mapping[str, object]]:
        """Write the file, reload it, and return the log."""
        self.file.write_text(text)
        with capture_logs() as logged:
            await self.watch.take_over()
        return [*logged]

    @property
    def names(self) -> list[str] | None:
        fallback = self.operator.roots().fallback
        return None if fallback is None else [root.name for root in fallback.roots]


def config(roots: str, rest: str = SERVERS) -> str:
    return f"version: 1\nroots: {roots}\n{rest}"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/", "c/")


async def test_new_roots_are_taken_over(top: Path) -> None:
    at = Followed(top, config("{fallback: [a]}"))
    (line,) = await at.becomes(config("{fallback: [a, {path: b, name: Two}], ceiling: [.]}"))
    assert at.names == ["a", "Two"]
    assert at.operator.roots().ceiling is not None
    assert at.times == 1
    assert line["event"] == "roots reloaded from the config"
    assert line["fallback"] == [f"{top}/a", f"{top}/b"]


async def test_settings_for_missing_roots_are_reloaded(top: Path) -> None:
    at = Followed(top, config("{}"))
    await at.becomes(config("{when_missing: deny, when_empty: allow, strict: true}"))
    assert at.operator.roots() == OperatorRoots(
        when_missing="deny", when_empty="allow", strict=True
    )


async def test_an_empty_list_grants_nothing(top: Path) -> None:
    at = Followed(top, config("{fallback: [a]}"))
    await at.becomes(config("{fallback: []}"))
    assert at.names == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (config("{fallbck: [b]}"), "hub.yaml: roots.fallbck: unknown key"),
        ("version: 1\nroots: [", "hub.yaml: line 2, column 9: "),
        ("", "hub.yaml: version: is missing"),
    ],
)
async def test_a_config_that_does_not_load_changes_nothing(
    top: Path, text: str, where: str
) -> None:
    at = Followed(top, config("{fallback: [a]}"))
    (line,) = await at.becomes(text)
    assert (line["log_level"], at.names, at.times) == ("error", ["a"], 0)
    assert str(line["where"]).startswith(where)
    assert line["fix"]


async def test_a_removed_config_file_changes_nothing(top: Path) -> None:
    at = Followed(top, config("{fallback: [a]}"))
    at.file.unlink()
    with capture_logs() as logged:
        await at.watch.take_over()
    assert [line["where"] for line in logged] == ["hub.yaml: no such file"]
    assert at.names == ["a"]


async def test_a_loader_that_fails_ends_nothing(top: Path) -> None:
    at = Followed(top, config("{fallback: [a]}"))
    at.watch = ConfigWatch(at.watched, at.running, broken, at.operator)
    (line,) = await at.becomes(config("{fallback: [b]}"))
    assert (line["log_level"], at.names) == ("error", ["a"])


def broken(roots: object) -> OperatorRoots:
    raise RecursionError


async def test_keys_that_need_a_restart_are_logged_once(top: Path) -> None:
    at = Followed(top, config("{fallback: [a]}"))
    text = config("{fallback: [a], deny: [x]}", f"guard: report\n{SERVERS}")
    (line,) = await at.becomes(text)
    assert line["event"] == "config changed: needs a restart"
    assert line["keys"] == ["guard", "roots.deny"]
    assert at.times == 0
    lines = await at.becomes(text.replace("[a]", "[b]"))
    assert [line["event"] for line in lines] == ["roots reloaded from the config"]
    assert await at.becomes(config("{fallback: [b]}")) == []


async def test_what_goes_before_the_config_stays_before_it(top: Path) -> None:
    at = Followed(top, config("{fallback: [a]}"), given=(str(top / "c"),))
    lines = await at.becomes(config("{fallback: [b]}"))
    assert at.names == ["c"]
    assert lines[-1]["event"] == "roots.fallback has no effect"
    assert lines[-1]["before_it"] == "--root"


def test_servers_are_named_one_by_one() -> None:
    def made(**servers: str) -> HubConfig:
        entries = {name: {"command": command} for name, command in servers.items()}
        return HubConfig.model_validate({"version": 1, "servers": entries})

    changed = needs_restart(made(a="x", b="x", c="x"), made(a="x", b="y", d="x"))
    assert changed == ["servers.b", "servers.c", "servers.d"]


async def until(condition: Callable[[], bool], at: Followed) -> None:
    with anyio.fail_after(5):
        while not condition():
            await at.changed.wait()


async def test_the_file_is_watched(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.01)
    at = Followed(top, config("{fallback: [a]}"))
    async with watching(at.watched, at.running, at.roots_of, at.operator, anyio.sleep_forever):
        other = top / "other.yaml"
        other.write_text(config("{fallback: [b]}"))
        other.replace(at.file)
        await until(lambda: at.names == ["b"], at)
        at.file.write_text(config("{fallback: [a, c]}"))
        await until(lambda: at.names == ["a", "c"], at)
    assert at.times == 2


async def test_a_file_that_still_changes_is_not_read(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a file may say less than the whole."""
    at = Followed(top, config("{fallback: [a]}"))
    sizes = iter((1, 2, 3, 4, 4, 4))
    seen: list[int] = []
    took_over: list[int] = []
    done = anyio.Event()

    def look(_: Watched) -> tuple[int, ...]:
        size = next(sizes, None)
        if size is None:
            done.set()
            size = 4
        seen.append(size)
        return (size,)

    async def take_over(_: ConfigWatch) -> None:
        took_over.append(seen[-1])

    monkeypatch.setattr(watch, "EVERY", 0.001)
    monkeypatch.setattr(Watched, "look", look)
    monkeypatch.setattr(ConfigWatch, "take_over", take_over)
    async with watching(at.watched, at.running, at.roots_of, at.operator, anyio.sleep_forever):
        with anyio.fail_after(5):
            await done.wait()
    assert took_over == [4]


async def test_without_a_file_nothing_is_watched(top: Path) -> None:
    at = Followed(top, config("{}"))
    async with watching(None, at.running, at.roots_of, at.operator, anyio.sleep_forever):
        assert at.operator.roots() == OperatorRoots()


class Asked:
    """Asks to reload when a test says so."""

    def __init__(self) -> None:
        self.send, self.heard = anyio.create_memory_object_stream[None](1)

    async def __call__(self) -> None:
        await self.heard.receive()


async def test_who_asks_gets_the_file_loaded_though_it_looks_the_same(top: Path) -> None:
    at, asked = Followed(top, config("{fallback: [a]}")), Asked()
    seen = at.file.stat()
    with capture_logs() as logged, anyio.fail_after(5), asked.send, asked.heard:
        async with watching(at.watched, at.running, at.roots_of, at.operator, asked):
            changed = at.changed
            at.file.write_text(config("{fallback: [b]}"))
            os.utime(at.file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            await asked.send.send(None)
            await changed.wait()
    assert at.names == ["b"]
    assert logged[0]["event"] == "asked to reload"


async def test_who_asks_without_a_config_file_is_told(top: Path) -> None:
    at, asked = Followed(top, config("{fallback: [a]}")), Asked()
    with capture_logs() as logged, anyio.fail_after(5), asked.send, asked.heard:
        async with watching(None, at.running, at.roots_of, at.operator, asked):
            await asked.send.send(None)
            await anyio.wait_all_tasks_blocked()
    assert [line["event"] for line in logged] == ["nothing to reload: there is no config file"]
