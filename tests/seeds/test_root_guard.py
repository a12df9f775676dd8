"""Rows G: a Python server framework's root guard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, compile_tool, decide
from hub.guard.policy import ToolPolicy
from hub.paths.file_uris import UriError, path_from_uri
from hub.paths.resolve import Entry, Flavour, LinkReader, PathError
from hub.roots.roots import RootSet, parse_announcement
from hub.roots.state import (
    Ask,
    Changed,
    ClientReady,
    Reachable,
    RootsAnswered,
    Ticked,
    Wake,
    start,
    step,
)
from hub.values import Call, Json, JsonObject
from tests.kit.hubs import READ_FILE, TWO_ROOTS, flow_hub, text_of
from tests.kit.trees import plant

ALICE: tuple[JsonObject, ...] = ({"uri": "file:///home/alice/project"},)
ALICES = (
    "home/alice/project/src/main.py",
    "home/alice/project/data.json",
    "home/alice/project/secrets => /etc",
    "home/alice/project/loop => loop",
    "home/bob/secrets",
)


@pytest.fixture
def alice(home: Path) -> Path:
    """Plant what the rows speak of."""
    return plant(home, *ALICES)


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/home/alice/project/src/main.py", False),
        ("/home/alice/project/../project/src", False),
        ("file:///home/alice/project/data.json", False),
        ("/etc/passwd", True),
        ("/home/bob/secrets", True),
        ("/home/alice/project/../../../etc/passwd", True),
        ("/home/alice/project/secrets", True),
        ("/home/alice/project/secrets/passwd", True),
    ],
)
async def test_g01_the_guard(path: str, refused: bool) -> None:
    async with flow_hub() as hub:
        client = await hub.connected(ALICE)
        assert await client.is_refused(path) is refused
        assert len(hub.child.calls) == (0 if refused else 1)


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("roots", [[], [{"uri": "https://example.com"}]])
async def test_g02_empty_roots_refuse_everything(roots: list[Json]) -> None:
    async with flow_hub() as hub:
        client = await hub.connected(roots)
        for path in ("/home/alice/project/data.json", "a.txt", ".", "/etc/passwd"):
            assert await client.is_refused(path), path
        report = await client.get_roots()
        assert (report["enforcing"], report["source"]) == (True, "client")
        assert hub.child.calls == []


@pytest.mark.parametrize(
    ("uri", "flavour", "path"),
    [
        ("file:///c:/Users/alice/project", Flavour.WINDOWS, "C:/Users/alice/project"),
        ("file://server/share/folder", Flavour.WINDOWS, "//server/share/folder"),
        ("file://localhost/srv/scratch", Flavour.POSIX, "/srv/scratch"),
        ("file:///d/proj", Flavour.POSIX, "/d/proj"),
    ],
)
def test_g03_file_uris(uri: str, flavour: Flavour, path: str) -> None:
    """Drive letters are in upper case; network paths are refused as roots (design, section 3)."""
    assert path_from_uri(uri, flavour) == path


def test_g03_another_machine_is_rejected_on_posix() -> None:
    """Bug of the original: it became a local path."""
    with pytest.raises(UriError):
        path_from_uri("file://server/share/folder", Flavour.POSIX)


class WindowsDisk(LinkReader):
    """A disk that has `C:\\Users\\alice` in it, spelled in any case."""

    def entry(self, path: str) -> Entry | None:
        known = ("C:\\", "C:\\USERS", "C:\\USERS\\ALICE", "C:\\USERS\\BOB")
        name = path.upper()
        return Entry("directory", 1, known.index(name)) if name in known else None

    def target(self, path: str) -> str:
        raise PathError("it is no link")


def test_g04_windows_paths_are_the_same_in_any_case() -> None:
    """By the guard itself: the hub of this test does not run on Windows."""
    disk = WindowsDisk()
    announced = parse_announcement(
        {"roots": [{"uri": "file:///C:/Users/alice"}]},
        links=disk,
        flavour=Flavour.WINDOWS,
        unsafe=None,
    )
    assert announced is not None
    around = CallContext(announced.roots, None, {}, disk, Flavour.WINDOWS)
    guard = compile_tool(READ_FILE["inputSchema"], read_only=True, policy=ToolPolicy())

    def admits(path: str) -> bool:
        arguments: JsonObject = {"path": path}
        return isinstance(decide(Call("tools/call", "t", arguments, {}), guard, around), Admitted)

    assert admits("c:\\users\\ALICE\\x.txt")
    assert admits("C:\\Users\\alice\\x.txt")
    assert not admits("c:\\users\\bob\\x.txt")
    assert not admits("c:\\users\\alice2\\x.txt")


@pytest.mark.usefixtures("home")
async def test_g05_what_a_call_is_judged_by_is_an_immutable_snapshot() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.read("/home/user/project/config.json")
        effective = client.connection.session.known_effective()
        with pytest.raises(AttributeError, match="immutable"):
            cast("Any", effective).roots = RootSet(())
        assert isinstance(effective.roots.roots, tuple)


@pytest.mark.usefixtures("home")
async def test_g05_the_same_roots_again_change_nothing() -> None:
    async with flow_hub({"roots": {"debounce": 0}}) as hub:
        client = await hub.connected()
        await client.read("/home/user/project/config.json")
        before = client.connection.session.known_effective()
        generation = (await client.get_roots())["generation"]
        await client.changed()
        await client.read("/home/user/project/config.json")
        assert len(client.asked) == 2
        assert client.connection.session.known_effective() == before
        assert (await client.get_roots())["generation"] == generation
        assert len(hub.children) == 1
        assert hub.child.heard("notifications/roots/list_changed") == 0


def test_g06_notifications_50_ms_apart_become_one_question() -> None:
    """As a script of events, where the times are exact."""
    state, _ = step(start(0.25), ClientReady(declares_roots=True))
    state, _ = step(state, Reachable())
    state, _ = step(state, RootsAnswered(1, announced(), 0.0))
    due = 0.0
    for count in range(10):
        state, effects = step(state, Changed(count * 0.05))
        (wake,) = effects
        assert isinstance(wake, Wake)
        due = wake.at
    assert due == pytest.approx(9 * 0.05 + 0.25)
    state, effects = step(state, Ticked(due))
    assert effects == (Ask(2),)


def test_g06_an_endless_stream_of_notifications_still_refreshes() -> None:
    """Bug of the original: it never did."""
    state, _ = step(start(0.25), ClientReady(declares_roots=True))
    state, _ = step(state, Reachable())
    state, _ = step(state, RootsAnswered(1, announced(), 0.0))
    asked: list[float] = []
    now, due = 0.0, float("inf")
    while now < 10:
        state, effects = step(state, Ticked(now)) if now >= due else step(state, Changed(now))
        for effect in effects:
            if isinstance(effect, Wake):
                due = effect.at
            elif isinstance(effect, Ask):
                asked.append(now)
                state, _ = step(state, RootsAnswered(effect.asked, announced(), now))
                due = float("inf")
        now += 0.05
    assert len(asked) >= 4


def announced() -> Any:
    """Return an empty answer."""
    disk = WindowsDisk()
    return parse_announcement({"roots": []}, links=disk, flavour=Flavour.POSIX, unsafe=None)


@pytest.mark.usefixtures("home")
async def test_g06_a_burst_becomes_one_question() -> None:
    async with flow_hub({"roots": {"debounce": 0.1}}) as hub:
        client = await hub.connected()
        await client.until_asked()
        for _ in range(10):
            await client.changed()
        assert len(client.asked) == 1
        await client.until_asked(2)
        await client.read("/home/user/project/config.json")
        assert len(client.asked) == 2


@pytest.mark.usefixtures("home")
async def test_g07_pages_of_roots_are_followed() -> None:
    async with flow_hub() as hub:
        client = await hub.connected(capabilities={"roots": {}}, holds=True)
        await client.until_asked()
        await client.answer(client.held[0], {"roots": [TWO_ROOTS[0]], "nextCursor": "two"})
        await client.until_asked(2)
        assert client.held[1]["params"] == {"cursor": "two"}
        await client.answer(client.held[1], {"roots": [TWO_ROOTS[1]]})
        assert (await client.get_roots())["rootsCount"] == 2


@pytest.mark.usefixtures("home")
async def test_g07_endless_pages_of_roots_come_to_an_end() -> None:
    async with flow_hub() as hub:
        client = await hub.connected(capabilities={"roots": {}}, holds=True)
        call = await client.begin("tools/call", {"name": "get-roots"})
        pages = 0

        def is_due() -> bool:
            return client.is_answered(call) or len(client.held) > pages

        while not client.is_answered(call):
            await client.until(is_due)
            if len(client.held) > pages:
                page: JsonObject = {"roots": [TWO_ROOTS[0]], "nextCursor": f"page {pages}"}
                await client.answer(client.held[pages], page)
                pages += 1
            assert pages < 100


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("method", ["tools/list", "resources/list", "prompts/list"])
async def test_g07_a_foreign_cursor_is_invalid_params_with_data(method: str) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        answer = await client.end(await client.begin(method, {"cursor": "no cursor of ours"}))
        error = cast("JsonObject", answer["error"])
        assert error["code"] == -32602
        assert error["data"]


@pytest.mark.usefixtures("alice")
async def test_g08_all_path_arguments_of_a_tool_are_checked() -> None:
    move: JsonObject = {"name": "move", "inputSchema": {"type": "object"}}
    inside, outside = "/home/alice/project/data.json", "/home/bob/secrets"
    async with flow_hub(tools=[move]) as hub:
        client = await hub.connected(ALICE)
        for source, destination in ((inside, outside), (outside, inside)):
            result = await client.call("move", source=source, destination=destination)
            assert text_of(result).startswith("Access denied: ")
        assert hub.child.calls == []
        await client.call("move", source=inside, destination="/home/alice/project/new.json")
        assert len(hub.child.calls) == 1


@pytest.mark.usefixtures("alice")
async def test_g09_a_file_resource_outside_the_roots_is_refused() -> None:
    resources: list[JsonObject] = [
        {"uri": "file:///home/alice/project/data.json", "name": "data"},
        {"uri": "file:///etc/passwd", "name": "passwd"},
        {"uri": "demo://etc/passwd", "name": "demo"},
    ]
    async with flow_hub(resources=resources) as hub:
        client = await hub.connected(ALICE)
        for uri in (resources[0]["uri"], resources[2]["uri"]):
            await client.request("resources/read", {"uri": uri})
        answer = await client.end(
            await client.begin("resources/read", {"uri": "file:///etc/passwd"})
        )
        error = cast("JsonObject", answer["error"])
        assert error["code"] == -32602
        assert error["message"] == (
            "Access denied: Path 'file:///etc/passwd' is outside the allowed roots boundaries. "
            'Current roots: ["file:///home/alice/project"]'
        )
        assert len(hub.child.calls) == 2


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    "path",
    [
        "~nosuchuser/x",
        "/home/alice/project/a\x00b",
        "//[x",
        "file://[x",
        "/home/alice/project/loop",
        "/home/alice/project/loop/x",
        "/home/alice/project/" + "x" * 300,
        "a/" * 3000,
        7,
        [1, 2],
    ],
    ids=repr,
)
async def test_g10_odd_paths_are_refused_and_no_exception_escapes(path: Json) -> None:
    """Bugs of the original: exceptions escaped, and loops were allowed."""
    async with flow_hub() as hub:
        client = await hub.connected(ALICE)
        assert await client.is_refused(path)
        assert hub.child.calls == []
        assert not await client.is_refused("/home/alice/project/data.json")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("bad", [{"uri": 7}, "text", None, {}, {"uri": "file:///home/nobody"}])
async def test_g11_one_bad_root_does_not_fail_the_refresh(bad: Json) -> None:
    """Bug of the original: it did."""
    async with flow_hub() as hub:
        client = await hub.connected([TWO_ROOTS[0], bad, TWO_ROOTS[1]])
        report = await client.get_roots()
        assert report["rootsCount"] == 2
        assert len(cast("list[Json]", report["rejected"])) == 1


@pytest.mark.usefixtures("home")
async def test_g12_relative_paths_start_at_the_childs_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Bug of the original: at the hub's."""
    elsewhere = plant(tmp_path, "hub/link => /etc", "home/user/project/up => ../../..")
    monkeypatch.chdir(elsewhere / "hub")
    async with flow_hub() as hub:
        client = await hub.connected([TWO_ROOTS[0]])
        assert json.loads(await client.read("link/passwd")) == {"path": "link/passwd"}
        assert await client.is_refused("up/etc/passwd")
        assert await client.is_refused("../other/file.txt")
        assert not await client.is_refused("src/../config.json")
        assert hub.child.plan is not None
        assert hub.child.plan.cwd == "/home/user/project"
