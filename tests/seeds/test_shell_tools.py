"""Rows B: roots in an MCP framework for shell tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig
from hub.errors import StartError
from hub.values import Json, JsonObject
from tests.kit.hubs import TWO_ROOTS, FakeClient, flow_hub
from tests.kit.trees import plant
from tests.kit.warm import WARM_HUB, ran

IN_PROJECT = "/home/user/project/config.json"
IN_DOCUMENTS = "/home/user/documents/readme.txt"
AT_ONCE = {"roots": {"debounce": 0}}


def hub_yaml(directory: Path, roots: object, server: str = "files-server") -> HubConfig:
    """Write a config and load it; JSON is YAML."""
    file = directory / "hub.yaml"
    raw = {"version": 1, "roots": roots, "servers": {"files": {"command": server}}}
    file.write_text(json.dumps(raw))
    return load_config(str(file), LoadContext(Path("/"))).config


async def file_paths(client: FakeClient) -> Json:
    """Return the folders that are in force."""
    return (await client.get_roots())["filePaths"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("capabilities", "asked"), [({"roots": {}}, 1), ({"sampling": {}}, 0)])
async def test_b01_asks_after_initialized_and_only_with_the_capability(
    capabilities: JsonObject, asked: int
) -> None:
    async with flow_hub() as hub:
        client = hub.client()
        await client.initialize(capabilities)
        await client.request("ping", {})
        assert client.asked == []
        await client.initialized()
        await client.read(IN_PROJECT)
        assert len(client.asked) == asked


@pytest.mark.usefixtures("home")
async def test_b02_a_burst_gives_one_refresh_and_the_last_change_wins() -> None:
    async with flow_hub({"roots": {"debounce": 0.05}}) as hub:
        client = await hub.connected()
        await client.until_asked()
        for _ in range(5):
            client.roots = [TWO_ROOTS[0]]
            await client.changed()
        client.roots = [TWO_ROOTS[1]]
        await client.changed()
        await client.until_asked(2)
        assert await file_paths(client) == ["/home/user/documents"]
        assert len(client.asked) == 2


@pytest.mark.usefixtures("home")
async def test_b02_a_change_while_the_refresh_runs_is_not_lost() -> None:
    """Bug of the original: it was."""
    async with flow_hub(AT_ONCE) as hub:
        client = await hub.connected()
        await client.read(IN_PROJECT)
        client.holds = True
        await client.changed()
        await client.until_asked(2)
        await client.changed()
        client.holds = False
        client.roots = [TWO_ROOTS[1]]
        await client.answer(client.held[0], {"roots": list(TWO_ROOTS)})
        assert await client.is_refused(IN_PROJECT)
        assert len(client.asked) == 3


@pytest.mark.usefixtures("home")
async def test_b03_roots_stay_known_during_a_refresh_and_are_replaced_on_success() -> None:
    """The design differs: a call during the refresh waits for it, and is not judged by the old."""
    async with flow_hub(AT_ONCE) as hub:
        client = await hub.connected()
        await client.read(IN_PROJECT)
        client.holds = True
        await client.changed()
        await client.until_asked(2)
        known = client.connection.session.known_effective()
        assert (known.roots.paths[0], known.stale) == ("/home/user/project", True)
        params: JsonObject = {"name": "read_file", "arguments": {"path": IN_PROJECT}}
        call = await client.begin("tools/call", params)
        await client.request("ping", {})
        assert not client.is_answered(call)
        await client.answer(client.held[0], {"roots": [TWO_ROOTS[1]]})
        assert "Access denied: " in json.dumps(await client.end(call))
        assert not await client.is_refused(IN_DOCUMENTS)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("how", ["silent", "error"])
async def test_b04_a_failed_refresh_keeps_the_roots_and_the_next_change_works(how: str) -> None:
    """Bug of the original: one timeout disabled refresh for ever."""
    async with flow_hub({"roots": {"debounce": 0, "timeout": 0.05}}) as hub:
        client = await hub.connected()
        await client.read(IN_PROJECT)
        client.holds, client.fails = how == "silent", how == "error"
        client.roots = [TWO_ROOTS[1]]
        await client.changed()
        assert not await client.is_refused(IN_PROJECT)
        report = await client.get_roots()
        assert (report["stale"], report["rootsCount"]) == (True, 2)
        client.holds = client.fails = False
        await client.changed()
        assert await client.is_refused(IN_PROJECT)
        assert (await client.get_roots())["stale"] is False
        methods = [message["method"] for message in client.received if "method" in message]
        assert set(map(str, methods)) <= {"roots/list", "notifications/cancelled"}


@pytest.mark.usefixtures("home")
async def test_b04_strict_denies_while_a_refresh_has_failed() -> None:
    config = {"roots": {"debounce": 0, "timeout": 0.05, "strict": True}}
    async with flow_hub(config) as hub:
        client = await hub.connected()
        await client.read(IN_PROJECT)
        client.fails = True
        await client.changed()
        assert await client.is_refused(IN_PROJECT)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "payload", [{"roots": "nope"}, {"roots": None}, {}, {"roots": {"uri": "file:///etc"}}]
)
async def test_b05_a_malformed_payload_is_ignored(payload: JsonObject) -> None:
    """Bug of the original: `{"roots": "nope"}` wiped the roots."""
    async with flow_hub(AT_ONCE) as hub:
        client = await hub.connected()
        await client.read(IN_PROJECT)
        client.holds = True
        await client.changed()
        await client.until_asked(2)
        await client.answer(client.held[0], payload)
        assert not await client.is_refused(IN_PROJECT)
        assert await client.is_refused("/etc/passwd")


@pytest.mark.usefixtures("home")
async def test_b06_the_roots_reach_the_child_in_its_environment() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.read(IN_PROJECT)
        assert hub.child.plan is not None
        variables = dict(hub.child.plan.env)
        assert json.loads(variables["MCP_ROOTS_JSON"]) == [
            {**root, "path": str(root["uri"]).removeprefix("file://")} for root in TWO_ROOTS
        ]
        assert variables["MCP_ROOTS_PATHS"] == "/home/user/project\n/home/user/documents"
        assert variables["MCP_ROOTS_COUNT"] == "2"


@pytest.mark.parametrize(
    ("given", "environment", "configured", "used"),
    [
        (True, True, True, "--root"),
        (False, True, True, "HUB_ROOTS"),
        (False, False, True, "config"),
        (False, False, False, "none"),
    ],
)
async def test_b07_flag_before_environment_before_config_before_nothing(
    tmp_path: Path, *, given: bool, environment: bool, configured: bool, used: str
) -> None:
    top = plant(tmp_path, "flag/", "variable/", "conf/data/")
    config = hub_yaml(top / "conf", {"fallback": ["./data"]} if configured else {})
    variables = {"HUB_ROOTS": str(top / "variable")} if environment else {}
    flags = [str(top / "flag")] if given else []
    folders = {
        "--root": top / "flag",
        "HUB_ROOTS": top / "variable",
        "config": top / "conf" / "data",
    }
    async with flow_hub(loaded=config, given=flags, environment=variables) as hub:
        client = await hub.connected(capabilities={})
        report = await client.get_roots()
        assert report["source"] == used
        assert report["filePaths"] == ([str(folders[used])] if used in folders else [])
        assert report["enforcing"] is (used != "none")


async def test_b07_a_client_with_roots_of_its_own_gets_no_fallback(tmp_path: Path) -> None:
    top = plant(tmp_path, "flag/", "own/")
    async with flow_hub(given=[str(top / "flag")]) as hub:
        client = await hub.connected([{"uri": (top / "own").as_uri()}])
        assert await file_paths(client) == [str(top / "own")]


@pytest.mark.parametrize("where", ["--root", "HUB_ROOTS"])
async def test_b08_flag_and_environment_roots_fail_fast(tmp_path: Path, where: str) -> None:
    """Bug of the original: the environment's fell through to the next source."""
    top = plant(tmp_path, "there/", "data/")
    paths = [str(top / "there"), str(top / "missing")]
    given = paths if where == "--root" else []
    variables = {"HUB_ROOTS": ":".join(paths)} if where == "HUB_ROOTS" else {}
    with pytest.RaisesGroup(StartError, allow_unwrapped=True, flatten_subgroups=True) as caught:
        async with flow_hub(
            {"roots": {"fallback": [str(top / "data")]}}, given=given, environment=variables
        ):
            pass
    assert f"{where} {top / 'missing'}" in str(caught.value.exceptions[0])


async def test_b08_config_roots_that_are_bad_are_skipped(tmp_path: Path) -> None:
    top = plant(tmp_path, "data/")
    config = {"roots": {"fallback": [str(top / "missing"), str(top / "data"), "/etc"]}}
    with capture_logs() as logs:
        async with flow_hub(config) as hub:
            client = await hub.connected(capabilities={})
            assert await file_paths(client) == [str(top / "data")]
    skipped = [entry["path"] for entry in logs if entry["event"] == "root skipped"]
    assert skipped == [str(top / "missing"), "/etc"]


async def test_b08_config_roots_that_are_all_bad_grant_nothing(tmp_path: Path) -> None:
    config = {"roots": {"fallback": [str(tmp_path / "missing")]}}
    async with flow_hub(config) as hub:
        client = await hub.connected(capabilities={})
        assert await client.is_refused("/etc/passwd")


async def test_b09_directories_are_never_created(tmp_path: Path) -> None:
    top = plant(tmp_path, "there/")
    config = {"roots": {"fallback": [str(top / "there"), str(top / "missing")]}}
    async with flow_hub(config) as hub:
        fallback = await hub.connected(capabilities={})
        assert await file_paths(fallback) == [str(top / "there")]
        client = await hub.connected([{"uri": (top / "other").as_uri()}])
        report = await client.get_roots()
        assert report["filePaths"] == []
        assert report["rejected"] == [
            {"uri": (top / "other").as_uri(), "reason": "Path is not accessible"}
        ]
    assert sorted(entry.name for entry in top.iterdir()) == ["there"]


async def test_b10_roots_are_canonical_decoded_and_each_place_counts_once(tmp_path: Path) -> None:
    top = plant(tmp_path, "real dir/a.txt", "link => real dir", "d/proj/a.txt")
    roots: list[Json] = [
        {"uri": (top / "link").as_uri(), "name": "first"},
        {"uri": (top / "real dir").as_uri(), "name": "second"},
        {"uri": (top / "d/proj").as_uri()},
    ]
    async with flow_hub() as hub:
        client = await hub.connected(roots)
        report = await client.get_roots()
        assert report["filePaths"] == [str(top / "real dir"), str(top / "d/proj")]
        assert report["roots"] == [roots[0], roots[2]]
        assert not await client.is_refused(str(top / "link/a.txt"))
        assert not await client.is_refused(str(top / "real dir/a.txt"))


async def test_b10_a_drive_letter_is_none_on_linux(home: Path) -> None:
    """Bug of the original: `/d/proj` became `/D/proj`."""
    plant(home, "d/proj/a.txt")
    async with flow_hub() as hub:
        client = await hub.connected([{"uri": "file:///d/proj"}])
        assert await file_paths(client) == ["/d/proj"]
        assert not await client.is_refused("/d/proj/a.txt")
        assert await client.is_refused("/D/proj/a.txt")


@pytest.mark.usefixtures("home")
async def test_b11_only_local_file_uris_are_taken_from_clients() -> None:
    uris = [
        "https://example.com/api",
        "file://server/home/user/project",
        "/home/user/project",
        "file://localhost/home/user/documents",
    ]
    async with flow_hub() as hub:
        client = await hub.connected([{"uri": uri} for uri in uris])
        report = await client.get_roots()
        assert report["filePaths"] == ["/home/user/documents"]
        assert report["rejected"] == [
            {"uri": uris[0], "reason": "Only file:// URIs are supported"},
            {"uri": uris[1], "reason": "Path is on another machine: server"},
            {"uri": uris[2], "reason": "Only file:// URIs are supported"},
        ]


@pytest.mark.usefixtures("home")
async def test_b12_a_late_answer_is_dropped() -> None:
    async with flow_hub({"roots": {"debounce": 0, "timeout": 0.05}}) as hub:
        client = await hub.connected(holds=True)
        assert await client.is_refused(IN_PROJECT)
        before = await client.get_roots()
        await client.answer(client.held[0])
        assert await client.is_refused(IN_PROJECT)
        assert (await client.get_roots())["generation"] == before["generation"]


async def test_b13_the_originals_example_config(tmp_path: Path) -> None:
    """`./data/sample.txt` is looked for below the child's directory, which is the first root."""
    top = plant(tmp_path, "data/sample.txt", "media/a.jpg", "private.txt")
    fallback = [{"path": "./data", "name": "Data"}, {"path": f"{top}/media", "name": "Media"}]
    async with flow_hub(loaded=hub_yaml(top, {"fallback": fallback})) as hub:
        client = await hub.connected(capabilities={})
        report = await client.get_roots()
        assert report["roots"] == [
            {"uri": (top / "data").as_uri(), "name": "Data"},
            {"uri": (top / "media").as_uri(), "name": "Media"},
        ]
        for path in (f"{top}/data/sample.txt", "./data/sample.txt", "sample.txt"):
            assert not await client.is_refused(path), path
        assert not await client.is_refused(f"{top}/media/a.jpg")
        for path in ("/etc/passwd", f"{top}/private.txt", "../private.txt"):
            assert await client.is_refused(path), path


async def test_b13_a_root_is_no_pattern(home: Path) -> None:
    plant(home, "srv/root[1]/a.txt", "srv/root1/a.txt")
    async with flow_hub() as hub:
        client = await hub.connected([{"uri": "file:///srv/root%5B1%5D"}])
        assert not await client.is_refused("/srv/root[1]/a.txt")
        assert await client.is_refused("/srv/root1/a.txt")


@pytest.mark.live
def test_b14_contains_answers_scripts_by_its_exit_code(tmp_path: Path) -> None:
    top = plant(tmp_path, "shared/a.txt", "shared-evil/b.txt", "shared/out => ..")

    def contains(path: str) -> int:
        command = [WARM_HUB, "roots", "contains", "--root", str(top / "shared"), path]
        return ran(command, timeout=60, cwd=top).returncode

    assert contains(str(top / "shared/a.txt")) == 0
    assert contains("shared/new.txt") == 0
    assert contains(str(top / "shared-evil/b.txt")) == 1
    assert contains("shared/out/shared-evil/b.txt") == 1
    assert contains("/etc/passwd") == 1
