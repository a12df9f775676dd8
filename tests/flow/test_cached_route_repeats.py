"""A call whose route is cached has the verdict of the same call before it, without the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.guard.decide import Admitted, Refused
from hub.guard.policy import AccessRule, DenyPatterns, Policy
from hub.jsonrpc.messages import Request
from hub.launch.plan import LaunchTemplate
from hub.launch.templates import parse_template
from hub.paths.resolve import Flavour, parts_of
from hub.values import JsonObject
from tests.kit.fakes import READ, FakeChild
from tests.kit.rigs import RigClient, launched, remote, rig
from tests.kit.trees import plant

WRITE: JsonObject = {"name": "write", "inputSchema": READ["inputSchema"]}
TREE = ("in/a/b/f", "in/a/f", "in/a b/f", "out/f", "in/way => ../out", "in/file => ../out")
INSIDE = (
    *("{top}/in", "{top}/in/", "{top}/in/a/f", "{top}/in/été/文 1", "file://{top}/in/a/f"),
    *(".", "./a/", "a/f", "a b/f", "new"),
)
OUTSIDE = (
    *("{top}/i", "{top}/out/", "{top}/in/../out", "{top}/in/\uff0e\uff0e/out"),
    *("file://{top}/out/f", "{top}/in/way", "{top}/in/way/", "file://{top}/in/way/f"),
    *("way/f", "./way/", "../out", "./.."),
)
GLOBS = ("*", "a/*", "{top}/in/*", "./a b/**/*.py")


async def call_twice(client: RigClient, tool: str, arguments: JsonObject, verdict: bool) -> None:
    """Call a tool, and judge the call again as its cached route does."""
    request = Request(1, "tools/call", {"name": tool, "arguments": arguments})
    await client.call(tool, {})
    for _ in range(2):
        result = await client.call(tool, arguments)
        assert ("isError" not in result) is verdict, (tool, arguments)
        route = client.rig.relay.session_routes.find(client.session, request)
        assert route is not None
        said = route.judge(request.params)
        assert isinstance(said, Admitted if verdict else Refused), (tool, arguments)


def policies(top: Path) -> dict[str, Policy]:
    rule = AccessRule(parts_of(str(top / "in/a/b"), Flavour.POSIX), "read")
    return {
        "none": Policy(),
        "links": Policy(symlinks="deny"),
        "patterns": Policy(deny=DenyPatterns(("a/b/", "*.key"))),
        "rights": Policy(access=(rule,)),
    }


@pytest.mark.parametrize("policy", ["none", "links", "patterns", "rights"])
async def test_the_second_call_has_the_verdict_of_the_first(tmp_path: Path, policy: str) -> None:
    top = plant(tmp_path, *TREE)
    spec = replace(remote("files"), policy=policies(top)[policy])
    rows = [("read", "path", path, True) for path in INSIDE]
    rows += [("read", "pattern", path, True) for path in GLOBS]
    rows += [("read", key, path, False) for path in OUTSIDE for key in ("path", "pattern")]
    denied = ("a/b/f", "a/b/new", "{top}/in/x.key")
    rows += [("read", "path", path, policy != "patterns") for path in denied]
    rows += [("write", "path", path, policy in {"none", "links"}) for path in ("a/b", "./a/b/new")]
    local = {"file://{top}/in/a/f": True, "file://{top}/out/f": False}
    rows += [("read", "volume", uri, verdict) for uri, verdict in local.items()]
    async with rig({"files": spec}, {"files": FakeChild(READ, WRITE)}) as at:
        client = at.client(top / "in")
        for tool, key, path, verdict in rows:
            await call_twice(client, tool, {key: path.format(top=top)}, verdict)


async def test_what_starts_beside_the_roots_is_weighed(tmp_path: Path) -> None:
    top = plant(tmp_path, *TREE)
    target = LaunchTemplate("files", parse_template("server"), cwd=parse_template("${root}/.."))
    spec = replace(launched("files"), target=target)
    async with rig({"files": spec}, {"files": FakeChild(READ)}) as at:
        client = at.client(top / "in")
        for path, verdict in (("in/a/f", True), ("out/f", False), (f"{top}/in/a/f", True)):
            await call_twice(client, "read", {"path": path}, verdict)
