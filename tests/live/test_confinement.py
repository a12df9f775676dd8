"""Real servers, bare and confined side by side: what leaks bare is stopped, normal work goes on."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from hub.confinement import landlock
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, compile_tool, decide
from hub.guard.policy import AccessRule, Policy, ToolPolicy
from hub.paths.resolve import Flavour
from hub.specs import Allowance, ConfineMode, ConfineSetting
from hub.system.machine import OsDisk
from hub.values import Call, JsonObject
from tests.conftest import PROJECT
from tests.kit.confinement import needs_landlock
from tests.kit.rigs import roots_at
from tests.kit.trees import plant
from tests.kit.warm import ROOTS_HUB, WARM_HUB, ran
from tests.live.confined import server
from tests.live.programs import RECORDER, call, config_file, connected, http_hub, report

MODES: list[ConfineMode] = ["off", "require"]
both = pytest.mark.parametrize("mode", MODES)
pytestmark = needs_landlock

AT_FDCWD, RENAME_EXCHANGE = -100, 2
SWAPPED_READS = 600
"""Unconfined, one of about sixty led outside."""

PLACE = PROJECT / ".confinement"
"""Where `make confinement-tests` installs servers that are too heavy to be installed always."""


def python_server(name: str) -> Path:
    """Return a server that `uv tool install` made; the test is skipped without it."""
    found = PLACE / "bin" / name
    if not found.exists():
        pytest.skip(f"{name} is not installed: run `make confinement-tests`")
    return found


def npm_server(package: str, script: str) -> Path:
    """Return a server of tests/live/confined-servers.json; the test is skipped without it."""
    found = PLACE / "node_modules" / package / script
    if not found.exists():
        pytest.skip(f"{package} is not installed: run `make confinement-tests`")
    return found


def uses_network() -> None:
    """Skip a test that fetches packages unless it is asked for."""
    if not PLACE.exists():
        pytest.skip("it fetches packages: run `make confinement-tests`")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A root with a file in it and a secret beside it."""
    top = tmp_path.resolve()
    (top / "project").mkdir()
    (top / "project/a.txt").write_text("inside")
    (top / "secret.txt").write_text("the secret")
    return top / "project"


def secret_of(project: Path) -> Path:
    return project.parent / "secret.txt"


@pytest.fixture
def filesystem(npm_program: Callable[[str], str]) -> tuple[str, ...]:
    """The filesystem server, started with the whole disk allowed.

    It lists the directories it was allowed before it writes, in their order: `/` alone would be in
    its own way.
    """
    return npm_program("mcp-server-filesystem"), "${roots}", "/"


# One server after the other


@both
async def test_server_filesystem_that_was_allowed_everything(
    mode: ConfineMode, project: Path, filesystem: tuple[str, ...]
) -> None:
    secret = secret_of(project)
    async with server(mode, project, *filesystem) as direct:
        assert await direct.call("read_text_file", path=str(project / "a.txt")) == "inside"
        written = str(project / "new/b.txt")
        await direct.call("create_directory", path=str(project / "new"))
        await direct.call("write_file", path=written, content="b")
        await direct.call("move_file", source=written, destination=str(project / "b.txt"))
        assert (project / "b.txt").read_text() == "b"
        read = await direct.call("read_text_file", path=str(secret))
        await direct.call("write_file", path=str(secret), content="overwritten")
        listed = await direct.call("list_directory", path=str(project.parent))
    assert (read == "the secret") == (mode == "off")
    assert (secret.read_text() == "overwritten") == (mode == "off")
    assert ("secret.txt" in listed) == (mode == "off")
    if mode != "off":
        assert "EACCES" in read


@both
async def test_a_link_that_leads_out(
    mode: ConfineMode, project: Path, filesystem: tuple[str, ...]
) -> None:
    (project / "link").symlink_to(secret_of(project))
    async with server(mode, project, *filesystem) as direct:
        read = await direct.call("read_text_file", path=str(project / "link"))
    assert (read == "the secret") == (mode == "off")


@both
async def test_a_root_that_is_read_only(
    mode: ConfineMode, project: Path, filesystem: tuple[str, ...]
) -> None:
    policy = Policy(access=(AccessRule(roots_at(project).roots[0].parts, "read"),))
    async with server(mode, project, *filesystem, policy=policy) as direct:
        assert await direct.call("read_text_file", path=str(project / "a.txt")) == "inside"
        await direct.call("write_file", path=str(project / "a.txt"), content="changed")
    assert ((project / "a.txt").read_text() == "changed") == (mode == "off")


def git(directory: Path, *arguments: str) -> str:
    """Run git as somebody with a name."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    command = ["git", *identity, *arguments]
    return subprocess.run(  # noqa: S603 - a test's own command
        command, cwd=directory, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@both
async def test_mcp_server_git(mode: ConfineMode, project: Path) -> None:
    beside = project.parent / "beside"
    beside.mkdir()
    for repository in (project, beside):
        git(repository, "init", "--quiet")
        git(repository, "commit", "--quiet", "--allow-empty", "-m", f"first of {repository.name}")
    home = project.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.com\n")
    argv = (sys.executable, "-m", "mcp_server_git")
    async with server(mode, project, *argv, env={"HOME": str(home)}) as direct:
        assert "a.txt" in await direct.call("git_status", repo_path=str(project))
        await direct.call("git_add", repo_path=str(project), files=["a.txt"])
        await direct.call("git_commit", repo_path=str(project), message="by the server")
        await direct.call("git_create_branch", repo_path=str(project), branch_name="new")
        log = await direct.call("git_log", repo_path=str(beside))
    assert (
        git(project, "log", "-1", "--format=%an <%ae>: %s")
        == "Ann <ann@example.com>: by the server\n"
    )
    assert "new" in git(project, "branch")
    assert ("first of beside" in log) == (mode == "off")


@both
async def test_mcp_server_sqlite_attaches_another_file(mode: ConfineMode, project: Path) -> None:
    program = python_server("mcp-server-sqlite")
    with closing(sqlite3.connect(project.parent / "other.db")) as other:
        other.execute("create table secrets (word)")
        other.execute("insert into secrets values ('the secret')")
        other.commit()
    async with server(mode, project, program, "--db-path", project / "own.db") as direct:
        await direct.call("create_table", query="create table notes (text)")
        await direct.call("write_query", query="insert into notes values ('mine')")
        assert "mine" in await direct.call("read_query", query="select * from notes")
        attach = f"attach database '{project.parent}/other.db' as other"
        await direct.call("write_query", query=attach)
        # Each query is a connection of its own: the server's own words say what came of it.
        said = await direct.call("write_query", query=attach)
    assert ("unable to open" in said) == (mode != "off"), said


@both
async def test_markitdown_mcp_converts_another_file(mode: ConfineMode, project: Path) -> None:
    program = python_server("markitdown-mcp")
    (project / "page.html").write_text("<h1>Title</h1>")
    async with server(mode, project, program) as direct:
        page = await direct.call("convert_to_markdown", uri=(project / "page.html").as_uri())
        assert page == "# Title"
        read = await direct.call("convert_to_markdown", uri=secret_of(project).as_uri())
    assert (read == "the secret") == (mode == "off")


@both
async def test_desktop_commander_starts_cat(mode: ConfineMode, project: Path) -> None:
    script = npm_server("@wonderwhy-er/desktop-commander", "dist/index.js")
    own = {"HOME": str(project.parent)}
    async with server(mode, project, "node", script, env=own) as direct:
        for path, expected in ((project / "a.txt", "inside"), (secret_of(project), "the secret")):
            said = await direct.call("start_process", command=f"cat {path}", timeout_ms=3000)
            leaks = expected in said
            assert leaks == (mode == "off" or path.parent == project), said


@both
async def test_npx_fetches_and_runs_a_server(mode: ConfineMode, project: Path) -> None:
    uses_network()
    own = {"HOME": str(project.parent / "home")}
    argv = ("npx", "-y", "@modelcontextprotocol/server-filesystem", "/")
    async with server(mode, project, *argv, env=own) as direct:
        assert await direct.call("read_text_file", path=str(project / "a.txt")) == "inside"
        read = await direct.call("read_text_file", path=str(secret_of(project)))
    assert (read == "the secret") == (mode == "off")


@both
async def test_uvx_fetches_and_runs_a_server(mode: ConfineMode, project: Path) -> None:
    uses_network()
    beside = project.parent / "beside"
    beside.mkdir()
    for repository in (project, beside):
        git(repository, "init", "--quiet")
    own = {"HOME": str(project.parent / "home")}
    argv = (PROJECT / ".venv/bin/uvx", "mcp-server-git")
    async with server(mode, project, *argv, env=own) as direct:
        assert "a.txt" in await direct.call("git_status", repo_path=str(project))
        status = await direct.call("git_status", repo_path=str(beside))
    assert ("branch" in status.lower()) == (mode == "off")


# Between the check and the opening

RACES = 60
SWAPPING = """
import ctypes, os, sys
first, second = map(os.fsencode, sys.argv[1:])
libc = ctypes.CDLL(None)
print("swaps", flush=True)
while libc.renameat2(-100, first, -100, second, 2) == 0: pass
"""
"""Exchanges two directory entries (RENAME_EXCHANGE) for as long as it runs."""
READ_FILE: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}


@contextmanager
def swapping(first: Path, second: Path) -> Generator[None]:
    """Exchange two places, again and again, until the context ends."""
    command = [sys.executable, "-c", SWAPPING, str(first), str(second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:  # noqa: S603 - a test's own
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"swaps\n"
        try:
            yield
        finally:
            swapper.kill()


def is_admitted(path: Path, root: Path) -> bool:
    """Let the guard judge a call of a tool that reads `path`."""
    arguments: JsonObject = {"path": str(path)}
    around = CallContext(
        roots=roots_at(root), cwd=str(root), env={}, links=OsDisk(), flavour=Flavour.POSIX
    )
    call = Call("tools/call", "read", arguments, {"name": "read", "arguments": arguments})
    guard = compile_tool(READ_FILE, read_only=True, policy=ToolPolicy())
    return isinstance(decide(call, guard, around), Admitted)


@both
async def test_a_directory_that_becomes_a_link_after_its_path_was_admitted(
    mode: ConfineMode, project: Path
) -> None:
    folder, other = project / "folder", project.parent / "other"
    for place, text in ((folder, "inside"), (other, "the secret")):
        place.mkdir()
        (place / "file").write_text(text)
    (project / "link").symlink_to(other)
    read: list[str] = []
    either = ("the secret", "PermissionError")
    other_way, never = either if mode == "off" else reversed(either)
    met = {"inside", other_way}
    with swapping(folder, project / "link"), anyio.fail_after(150):
        async with server(mode, project, *RECORDER) as direct:
            # Who wins a race is chance, and more so on a busy machine: until it was met both ways.
            while never not in read and (len(read) < RACES or not met <= set(read)):
                if is_admitted(folder / "file", project):
                    read.append(await direct.call("try_file", path=str(folder / "file")))
    assert ("the secret" in read) == (mode == "off")
    assert ("PermissionError" in read) == (mode != "off")


# What servers start


HARMS = """
import ctypes, os, resource, signal, sys
libc = ctypes.CDLL(None, use_errno=True)

def checked(found):
    if found < 0:
        raise OSError(ctypes.get_errno(), "refused")

hub, above = int(sys.argv[1]), os.getppid()
status = open(f"/proc/{above}/status").read()
CORE = resource.RLIMIT_CORE
subreaper = int(status.partition("PPid:")[2].split()[0])
for what in (
    lambda: resource.prlimit(hub, CORE, resource.prlimit(hub, CORE)),
    lambda: os.setpriority(os.PRIO_PROCESS, hub, os.getpriority(os.PRIO_PROCESS, hub)),
    lambda: os.sched_setaffinity(hub, os.sched_getaffinity(hub)),
    lambda: os.kill(hub, 0),
    lambda: os.kill(subreaper, 0),
    lambda: os.kill(-os.getpgid(subreaper), 0),
    lambda: os.pidfd_open(subreaper),
    lambda: os.pidfd_open(hub),
    lambda: checked(libc.tgkill(hub, hub, 0)),
    lambda: checked(libc.tgkill(subreaper, subreaper, 0)),
    lambda: open(f"/proc/{hub}/environ", "rb").read(),
    lambda: open(f"/proc/{subreaper}/environ", "rb").read(),
    lambda: os.open(f"/proc/{hub}/fd/0", os.O_RDONLY),
):
    try:
        what()
        print("HARM")
    except PermissionError:
        print("refused")
"""
"""Tries what would end or slow the hub and the parent of its child, with values that do not."""


@both
async def test_the_hub_and_the_parent_of_its_child_are_out_of_reach(
    mode: ConfineMode, project: Path
) -> None:
    setting = ConfineSetting(mode, read=("/proc",))
    async with server(mode, project, *RUNNING, setting=setting) as direct:
        argv = [sys.executable, "-I", "-S", "-c", HARMS, str(os.getpid())]
        said = await direct.call("run", argv=argv)
    assert said.split()[1:] == ["HARM" if mode == "off" else "refused"] * 13, said


BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
PAGE = "data:text/html,<p>hello</p>"
RUNNING = (sys.executable, str(PROJECT / "tests/live/running_child.py"))


def browser() -> str:
    """Return a browser; the test is skipped without one."""
    found = [place for name in BROWSERS if (place := shutil.which(name)) is not None]
    if not found:
        pytest.skip("there is no browser: install chromium-headless-shell (Debian)")
    return found[0]


async def test_a_browser_runs_without_its_own_sandbox(project: Path) -> None:
    setting = ConfineSetting("require", read=("/proc",), write=("/dev/shm",))  # noqa: S108 - shared memory
    argv = [browser(), "--headless", "--no-sandbox", "--dump-dom", PAGE]
    async with server("require", project, *RUNNING, setting=setting) as direct:
        said = await direct.call("run", argv=argv)
    assert said.startswith("0\n")
    assert "<p>hello</p>" in said


@pytest.mark.skipif(
    os.getuid() == 0, reason="browsers have no sandbox for root: run as another user"
)
@pytest.mark.parametrize("allow", [(), ("userns",)], ids=["", "userns"])
async def test_a_browsers_own_sandbox_needs_user_namespaces(
    allow: tuple[Allowance, ...], project: Path
) -> None:
    setting = ConfineSetting("require", write=("/dev/shm", "/proc"), allow=allow)  # noqa: S108 - see above
    argv = [browser(), "--headless", "--dump-dom", PAGE]
    async with server("require", project, *RUNNING, setting=setting) as direct:
        said = await direct.call("run", argv=argv)
    assert ("<p>hello</p>" in said) == bool(allow)


NODE = """
const {Worker} = require("worker_threads"), {execFileSync} = require("child_process");
const fs = require("fs");
fs.watch(".").close();
process.kill(process.pid, 0);
require("os").setPriority(0, 19);
fs.writeFileSync("b.txt", fs.readFileSync("a.txt"));
require("net").createServer().listen(0, "127.0.0.1", function () {
  this.close();
  new Worker("require('worker_threads').parentPort.postMessage(1)", {eval: true})
    .on("message", () => console.log("done", String(execFileSync("/bin/echo", ["x"]))));
});
"""


@pytest.fixture
def node() -> Path:
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no Node: install it")
    return Path(found).resolve()


async def test_node_and_its_workers_run(project: Path, node: Path) -> None:
    (project / "run.cjs").write_text(NODE)
    setting = ConfineSetting("require", read=(str(node.parents[1]),))
    async with server("require", project, *RUNNING, setting=setting) as direct:
        said = await direct.call("run", argv=["/bin/sh", "-c", f"cd {project} && {node} run.cjs"])
    assert said.startswith("0\ndone x"), said
    assert (project / "b.txt").read_text() == "inside"


# Through the whole hub


async def test_the_hub_says_who_is_confined(project: Path, tmp_path: Path) -> None:
    recorder = {"command": RECORDER[0], "args": RECORDER[1:]}
    servers = {
        "confined": {**recorder, "confine": "require"},
        "open": {**recorder, "confine": "off"},
        "elsewhere": {"command": "docker", "args": ["run", "x"], "confine": "auto"},
    }
    with http_hub("--config", config_file(tmp_path, servers, guard="off"), cwd=tmp_path) as url:
        async with connected(url, [project]) as client:
            inside, secret = str(project / "a.txt"), str(secret_of(project))
            assert await call(client, "confined__read_file", path=inside) == "inside"
            assert await call(client, "open__read_file", path=secret) == "the secret"
            stopped = await call(client, "confined__read_file", path=secret)
            said = {one["name"]: one["confinement"] for one in (await report(client))["servers"]}
    assert "exited with code 1" in stopped  # it does not catch what the kernel answers
    assert "the secret" not in stopped
    assert said["confined"].startswith("landlock (ABI ")
    assert (said["open"], said["elsewhere"]) == ("off", "unconfined")


@contextmanager
def swapped(one: Path, other: Path) -> Generator[None]:
    """Exchange two entries of a directory again and again, as the kernel does it in one step."""
    done = threading.Event()
    exchange = partial(
        ctypes.CDLL(None).renameat2, AT_FDCWD, bytes(one), AT_FDCWD, bytes(other), RENAME_EXCHANGE
    )

    def swap() -> None:
        while not done.is_set():
            exchange()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(
    landlock.abi() < 2, reason="it is not confined here: it takes Linux 5.19 or newer"
)
async def test_a_link_that_is_swapped_does_not_lead_the_hubs_own_file_server_outside(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "project/dir/x", "private/x", "project/link => ../private")
    project, read = top / "project", str(top / "project/dir/x")
    await anyio.Path(read).write_text("inside")
    await anyio.Path(top / "private/x").write_text("the secret")
    async with connected([ROOTS_HUB, "run", "--stdio"], cwd=project) as client:
        assert await call(client, "read_file", path=read) == "inside"
        with swapped(project / "dir", project / "link"):
            said = [await call(client, "read_file", path=read) for _ in range(SWAPPED_READS)]
    assert "inside" in said
    assert any("Access denied" in one for one in said), "the link stood there, too"
    assert "the secret" not in said


async def test_a_server_that_must_be_confined_and_cannot_be_stops_the_hub(tmp_path: Path) -> None:
    file = config_file(tmp_path, {"x": {"command": "docker", "confine": "require"}})
    ended = ran([WARM_HUB, "run", "--config", file], timeout=60)
    assert ended.returncode == 3
    assert "servers.x.confine: is require, but confining fails: " in ended.stderr
