from __future__ import annotations

import stat
import sys
import threading
from pathlib import Path
from threading import Event

import anyio
import pytest
from anyio import to_thread
from msgspec.structs import replace

from hub.logins.login import Login
from hub.logins.login_files import AGAIN, LoginFiles
from tests.kit.loops import all_tasks_blocked

URL = "https://mcp.example.com/mcp"
MARK = "access-s3cret"
LOGIN = Login(
    issuer="https://login.example.com",
    token_endpoint="https://login.example.com/token",  # noqa: S106 - no secret
    client_id="hub",
    access_token=MARK,
    issued=100.0,
    expires=160.0,
    refresh_token="refresh-s3cret",  # noqa: S106 - opens nothing
)


def files_below(directory: Path) -> list[Path]:
    return [one for one in directory.rglob("*") if one.is_file()]


def test_a_login_is_there_again_and_for_its_server_alone(tmp_path: Path) -> None:
    files = LoginFiles(tmp_path / "state")
    assert files.read(URL) is None
    files.write(URL, LOGIN)
    assert LoginFiles(tmp_path / "state").read(URL) == LOGIN
    assert files.read("https://mcp.example.com/other") is None
    assert files.remove(URL)
    assert not files.remove(URL)
    assert files.read(URL) is None


async def test_logins_that_cannot_be_read_yet_keep_no_other_work_waiting(tmp_path: Path) -> None:
    may_go_on, begun = threading.Event(), threading.Semaphore(0)

    class Locked(LoginFiles):
        def read(self, url: str, given_up: Event | None = None) -> Login | None:
            begun.release()
            assert may_go_on.wait(60)
            return super().read(url, given_up)

    others = int(to_thread.current_default_thread_limiter().total_tokens)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(others + 1):
                tasks.start_soon(Locked(tmp_path, f"principal {number}").find, URL)
            await all_tasks_blocked()
            assert await to_thread.run_sync(lambda: "done") == "done"
            may_go_on.set()
    assert all(begun.acquire(timeout=60) for _ in range(others + 1))


def test_what_is_kept_is_sealed_and_its_owners_alone(tmp_path: Path) -> None:
    LoginFiles(tmp_path / "state").write(URL, LOGIN)
    found = files_below(tmp_path)
    assert len(found) == 2
    for one in found:
        assert b"s3cret" not in one.read_bytes()
        if sys.platform != "win32":
            assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert "s3cret" not in repr(LOGIN)


def test_a_login_that_was_moved_or_changed_is_none(tmp_path: Path) -> None:
    files = LoginFiles(tmp_path)
    files.write(URL, LOGIN)
    files.write(f"{URL}/2", LOGIN)
    one, other = [path for path in files_below(tmp_path) if path.parent.name == "logins"]
    text = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(text[:-4] + b"AAAA")
    assert files.read(URL) is None
    assert files.read(f"{URL}/2") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")
def test_a_login_that_others_can_read_is_refused(tmp_path: Path) -> None:
    files = LoginFiles(tmp_path)
    files.write(URL, LOGIN)
    (file,) = [path for path in files_below(tmp_path) if path.parent.name == "logins"]
    file.chmod(0o644)
    with pytest.raises(PermissionError):
        files.read(URL)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock on Windows")
async def test_one_has_a_login_to_itself(tmp_path: Path) -> None:
    done: list[str] = []

    async def use(name: str) -> None:
        async with LoginFiles(tmp_path).alone(URL):
            done.append(f"{name} begins")
            await anyio.sleep(0.05)
            done.append(f"{name} ends")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use, "one")
        tasks.start_soon(use, "other")
    assert [line.split()[1] for line in done] == ["begins", "ends"] * 2
    assert done[0].split()[0] == done[1].split()[0]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock on Windows")
async def test_a_new_login_waits_until_the_one_before_was_renewed(tmp_path: Path) -> None:
    files = LoginFiles(tmp_path)
    new = replace(LOGIN, access_token="new")  # noqa: S106
    async with anyio.create_task_group() as tasks, files.alone(URL):
        tasks.start_soon(files.keep, URL, new)
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(5 * AGAIN)
        files.write(URL, replace(LOGIN, access_token="renewed"))  # noqa: S106
    kept = files.read(URL)
    assert kept is not None
    assert kept.access_token == "new"  # noqa: S105


def test_each_owner_has_a_login_of_its_own(tmp_path: Path) -> None:
    owners = ("", "anna", "https://login.example.com anna", "https://login.example.com\nanna")
    files = {owner: LoginFiles(tmp_path, owner) for owner in owners}
    for owner, its in files.items():
        assert its.read(URL) is None
        its.write(URL, replace(LOGIN, access_token=f"of {owner}"))
    for owner, its in files.items():
        login = its.read(URL)
        assert login is not None
        assert (login.access_token, login.owner) == (f"of {owner}", owner)
    found = files[""].of_principals(URL)
    assert sorted(login.owner for login in found) == sorted(owners[1:])
    assert files[""].of_principals(f"{URL}/2") == []
    assert files["anna"].remove(URL)
    assert len(files[""].of_principals(URL)) == 2
    assert files[""].read(URL) is not None
    for one in files_below(tmp_path):
        assert "anna" not in one.name


def test_a_login_in_the_place_of_another_owners_opens_for_nobody(tmp_path: Path) -> None:
    LoginFiles(tmp_path, "anna").write(URL, LOGIN)
    (of_anna,) = (tmp_path / "logins").iterdir()
    for owner in ("", "bob"):
        LoginFiles(tmp_path, owner).write(URL, LOGIN)
    for path in (tmp_path / "logins").iterdir():
        path.write_bytes(of_anna.read_bytes())
    assert LoginFiles(tmp_path, "anna").read(URL) is not None
    for owner in ("", "bob"):
        assert LoginFiles(tmp_path, owner).read(URL) is None
    assert [login.owner for login in LoginFiles(tmp_path).of_principals(URL)] == ["anna"]
