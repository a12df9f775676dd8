from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.children.link import ChildConnection
from hub.children.opener import open_launched
from hub.children.process.process_tree import ProcessSupervisor
from hub.confinement.confined_launch import cache_of, confined_plan, planned_grants, this_kernel
from hub.confinement.grants import Confined
from hub.errors import ChildError
from hub.guard.own_files import OwnFiles, OwnPlace
from hub.guard.policy import AccessRule, Policy
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Notification
from hub.jsonrpc.rated_log import ChildLog
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.launch.templates import parse_template
from hub.roots.roots import EMPTY, RootSet
from hub.secrets.reading import SecretReader
from hub.specs import ConfineMode, ConfineSetting, ServerSpec
from hub.system.machine import Kernel
from hub.system.shutdown import Shutdown
from hub.values import ServerName
from tests.kit.confinement import needs_landlock
from tests.kit.rigs import roots_at

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*MemoryObject.*Stream.__del__:pytest.PytestUnraisableExceptionWarning"
)
UNABLE = Kernel(0, "there is no Landlock here")
TELL = """
import json, os, sys
def reads(path):
    try:
        return open(path).read()
    except OSError as exc:
        return type(exc).__name__
def writes(path):
    try:
        open(path, "a").close()
    except OSError as exc:
        return type(exc).__name__
    return "written"
told = {"cwd": os.getcwd(), "env": dict(os.environ), "reads": {}, "writes": {}}
for path in sys.argv[1:]:
    told["reads"][path] = reads(path)
    told["writes"][path] = writes(path)
told["made"] = [writes(os.environ[name] + "/x") for name in ("HOME", "TMPDIR")]
told["here"] = writes("x")
print(json.dumps({"jsonrpc": "2.0", "method": "told", "params": told}), flush=True)
"""


@pytest.fixture(autouse=True)
def collected() -> Generator[None]:
    """Collect a test's garbage before the test ends."""
    yield
    gc.collect()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a hub whose user has a home directory with a git name."""
    home = tmp_path / "user"
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[user]\n\tname = "A \\"B\\" \\\\C"\n\temail = a@example.com\n[core]\n\teditor = evil\n'
    )
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def spec(
    *argv: str, mode: ConfineMode = "auto", cwd: str | None = None, **setting: Any
) -> ServerSpec:
    command, *args = map(parse_template, argv)
    target = LaunchTemplate(
        "files", command, tuple(args), cwd=(cwd and parse_template(cwd)) or None
    )
    policy = setting.pop("policy", Policy())
    return ServerSpec(ServerName("files"), target, policy, confine=ConfineSetting(mode, **setting))


def plan(
    *argv: str, cwd: str | None = None, roots: RootSet = EMPTY, env: Mapping[str, str] | None = None
) -> LaunchPlan:
    return LaunchPlan(argv, tuple((env or {}).items()), cwd, roots, argv)


@asynccontextmanager
async def opened(
    given: ServerSpec,
    planned: LaunchPlan,
    environment: Mapping[str, str],
    kernel: Kernel | None = None,
) -> AsyncGenerator[ChildConnection]:
    with anyio.fail_after(60):
        async with (
            ProcessSupervisor(Shutdown()) as supervisor,
            open_launched(
                replace(given, inherits=environment),
                planned,
                kernel or this_kernel(),
                supervisor,
                ChildLog(given.name),
                secrets=SecretReader(),
            ) as link,
        ):
            yield link


async def told(given: ServerSpec, planned: LaunchPlan, environment: Mapping[str, str]) -> Any:
    """Run the reporting child, and return its report."""
    async with opened(given, planned, environment) as link:
        message = await link.next()
        with pytest.raises(GoneError):
            await link.next()
    assert isinstance(message, Notification)
    return messages.as_object(message.params)


HANGING = """#!/bin/sh
echo $$ >"{top}/asked"
while [ -e "{top}/asked" ] && [ ! -e "{top}/goes-on" ]; do sleep 0.01; done
exit 1
"""


@pytest.mark.live
async def test_a_start_can_be_given_up_though_what_confines_it_hangs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    git, asked = tmp_path / "bin/git", tmp_path / "asked"
    git.parent.mkdir()
    git.write_text(HANGING.format(top=tmp_path))
    git.chmod(0o755)
    asked.touch()
    slow = {**environment, "PATH": f"{git.parent}:{environment['PATH']}"}

    async def start() -> None:
        async with opened(spec("true"), plan("true"), slow, Kernel(7, "", "")):
            pytest.fail("it cannot have been confined")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            while not asked.read_text():  # noqa: ASYNC110 - nobody tells of it
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    os.kill(int(asked.read_text()), 0)  # it still hangs
    (tmp_path / "goes-on").touch()


@needs_landlock
@pytest.mark.live
async def test_a_confined_child_has_its_roots_and_places_of_its_own(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    inside, outside = tmp_path / "root/a", tmp_path / "secret"
    inside.parent.mkdir()
    inside.write_text("a")
    outside.write_text("secret")
    argv = (sys.executable, "-c", TELL, str(inside), str(outside))
    planned = plan(*argv, cwd=str(inside.parent), roots=roots_at(inside.parent))
    found = await told(spec(*argv), planned, environment)
    assert found["reads"] == {str(inside): "a", str(outside): "PermissionError"}
    assert found["writes"] == {str(inside): "written", str(outside): "PermissionError"}
    assert (found["made"], found["here"]) == (["written", "written"], "written")
    home = found["env"]["HOME"]
    assert home != environment["HOME"]
    assert found["env"]["XDG_CONFIG_HOME"].startswith(home)
    assert not await anyio.Path(home).exists()


@needs_landlock
@pytest.mark.live
async def test_without_a_directory_it_may_write_in_its_private_one(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    argv = (sys.executable, "-c", TELL)
    found = await told(spec(*argv), plan(*argv), environment)
    assert found["here"] == "written"


@needs_landlock
@pytest.mark.live
async def test_the_operators_env_overrides_the_hubs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    argv = (sys.executable, "-c", TELL)
    planned = plan(*argv, env={"HOME": str(own), "TMPDIR": str(own)})
    found = await told(spec(*argv, write=(str(own),)), planned, environment)
    assert found["env"]["HOME"] == str(own)
    assert found["made"] == ["written", "written"]


@needs_landlock
@pytest.mark.live
async def test_a_root_that_is_read_only_cannot_be_written(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "root/a"
    file.parent.mkdir()
    file.write_text("a")
    roots = roots_at(file.parent)
    policy = Policy(access=(AccessRule(roots.roots[0].parts, "read"),))
    argv = (sys.executable, "-c", TELL, str(file))
    found = await told(spec(*argv, policy=policy), plan(*argv, roots=roots), environment)
    assert found["reads"] == {str(file): "a"}
    assert found["writes"] == {str(file): "PermissionError"}


@needs_landlock
@pytest.mark.live
async def test_git_gets_only_the_users_name_and_email(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    script = "git config --list --global -z | tr '\\n\\0' '=;' >&2"
    argv = ("/bin/sh", "-c", script)
    with capture_logs() as logs:
        async with opened(spec(*argv), plan(*argv), environment) as link:
            with pytest.raises(GoneError, match="exited with code 0"):
                await link.next()
    (line,) = [entry["line"] for entry in logs if entry["event"] == "stderr"]
    assert line == 'user.name=A "B" \\C;user.email=a@example.com;'


@needs_landlock
@pytest.mark.live
async def test_a_runner_keeps_what_it_fetched_in_a_place_of_the_server(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    runner = tmp_path / "tools/npx"
    runner.parent.mkdir()
    runner.write_text('#!/bin/sh\necho "$npm_config_cache" >&2; mkdir -p "$npm_config_cache/x"\n')
    runner.chmod(0o755)
    argv = (str(runner), "-y", "server")
    with capture_logs() as logs:
        async with opened(spec(*argv), plan(*argv), environment) as link:
            with pytest.raises(GoneError, match="exited with code 0"):
                await link.next()
    cache = cache_of("files", environment)
    assert cache.startswith(environment["HOME"])
    assert [entry["line"] for entry in logs if entry["event"] == "stderr"] == [f"{cache}/npm"]
    assert await anyio.Path(cache, "npm/x").is_dir()


def test_the_places_of_two_servers_are_never_one() -> None:
    names = ("a", "a/b", "..", ".", "a%2Fb", "")
    caches = {cache_of(name, {"HOME": "/h"}) for name in names}
    assert len(caches) == len(names)
    assert {os.path.normpath(os.path.join(cache, "..")) for cache in caches} == {  # noqa: PTH118 - text
        "/h/.cache/roots-hub/servers"
    }
    assert cache_of("a", {"HOME": "/h", "XDG_CACHE_HOME": "/c"}) == "/c/roots-hub/servers/a.d"
    relative = {"HOME": "/h", "XDG_CACHE_HOME": "c"}
    assert cache_of("a", relative) == "/h/.cache/roots-hub/servers/a.d"


async def test_with_require_a_server_that_cannot_be_confined_is_not_started(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    left = tmp_path / "left"
    argv = ("/bin/sh", "-c", f"touch {left}")
    with pytest.raises(ChildError, match=r"cannot be confined.*no Landlock here"):
        async with opened(spec(*argv, mode="require"), plan(*argv), environment, UNABLE):
            pytest.fail("it runs")
    assert not await anyio.Path(left).exists()


@pytest.mark.live
@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_one_that_would_be_confined_and_cannot_be_runs_and_it_is_said(
    mode: ConfineMode, environment: dict[str, str]
) -> None:
    argv = ("/bin/sh", "-c", "exit 3")
    with capture_logs() as logs:
        async with opened(spec(*argv, mode=mode), plan(*argv), environment, UNABLE) as link:
            with pytest.raises(GoneError, match="exited with code 3"):
                await link.next()
    loud = [entry for entry in logs if entry["event"] == "NOT confined"]
    assert [(entry["log_level"], entry["reason"]) for entry in loud] == (
        [("warning", UNABLE.why_not)] if mode == "auto" else []
    )


async def test_a_command_that_is_not_there_is_named(environment: dict[str, str]) -> None:
    argv = ("no-such-command",)
    with pytest.raises(ChildError, match="no command 'no-such-command'"):
        async with opened(spec(*argv), plan(*argv), environment, Kernel(7, "")):
            pytest.fail("it runs")


@needs_landlock
@pytest.mark.live
async def test_rules_that_the_kernel_cannot_enforce_are_logged(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    roots = roots_at(tmp_path)
    policy = Policy(access=(AccessRule((*roots.roots[0].parts, "vendor"), "read"),))
    argv = ("/bin/true",)
    with capture_logs() as logs:
        async with opened(spec(*argv, policy=policy), plan(*argv, roots=roots), environment):
            pass
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == [
        "not enforced by the kernel"
    ]


def test_what_holds_a_server_is_in_no_file_that_another_may_change(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    shell = replace(spec("/bin/sh"), inherits=environment)
    confined_plan(shell, plan("/bin/sh", roots=roots_at(tmp_path)), str(tmp_path), Confined(7))
    assert {place.name for place in tmp_path.iterdir()} == {"user", "home", "temporary"}


def test_a_root_with_the_private_folders_of_other_servers_is_said_to_open_them(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    shell, temporary = replace(spec("/bin/sh"), inherits=environment), tempfile.gettempdir()
    for root, opens in ((Path(temporary), True), (tmp_path, False)):
        found = planned_grants(shell, plan("/bin/sh", roots=roots_at(root)))
        assert [note.partition(":")[0] for note in found.unheld] == [
            f"it can write in other servers' private folders in {temporary}"
        ] * opens


def test_the_planned_grants_name_what_would_be_made(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    shell = replace(spec("/bin/sh"), inherits=environment)
    found = planned_grants(shell, plan("/bin/sh", roots=roots_at(tmp_path)))
    assert [grant.path for grant in found.write] == [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "(private HOME)",
        "(private TMPDIR)",
        str(tmp_path),
    ]
    assert "/usr" in [grant.path for grant in found.read]
    npx = replace(spec("npx"), inherits={**environment, "PATH": str(_npx(tmp_path))})
    runner = planned_grants(npx, plan("npx"))
    assert cache_of("files", environment) in [grant.path for grant in runner.write]


def _npx(top: Path) -> Path:
    (top / "npx").write_text("#!/bin/sh\n")
    (top / "npx").chmod(0o755)
    return top


def test_the_directory_of_the_roots_is_no_directory_of_the_server(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    planned = plan("/bin/sh", cwd=str(code))
    for cwd, granted in ((None, False), ("${root}", False), (str(code), True)):
        shell = replace(spec("/bin/sh", cwd=cwd), inherits=environment)
        found = planned_grants(shell, planned)
        assert (str(code) in [grant.path for grant in found.read]) == granted


@needs_landlock
@pytest.mark.live
async def test_a_git_that_does_not_answer_is_no_obstacle(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nexit 1\n")
    git.chmod(0o755)
    argv = ("/bin/sh", "-c", 'test ! -e "$HOME/.gitconfig"')
    async with opened(spec(*argv), plan(*argv), {**environment, "PATH": str(tmp_path)}) as link:
        with pytest.raises(GoneError, match="exited with code 0"):
            await link.next()


@needs_landlock
@pytest.mark.live
async def test_the_hubs_keys_in_a_root_are_an_error_with_require_and_a_warning_with_auto(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    root, keys = tmp_path / "root", tmp_path / "root/state/roots-hub"
    keys.mkdir(parents=True)
    place = OwnPlace(str(keys), keys.parts[1:], holds_keys=True)
    policy = Policy(own=OwnFiles(secret=(place,)))
    argv = (sys.executable, "-c", TELL)
    planned = plan(*argv, cwd=str(root), roots=roots_at(root))
    await told(spec(*argv, mode="require", policy=policy), planned, environment)
    (keys / "key").write_text("k")
    with pytest.raises(ChildError, match="has the hub's keys"):
        await told(spec(*argv, mode="require", policy=policy), planned, environment)
    with capture_logs() as logs:
        await told(spec(*argv, mode="auto", policy=policy), planned, environment)
    assert "CAN READ the hub's keys" in [entry["event"] for entry in logs]
