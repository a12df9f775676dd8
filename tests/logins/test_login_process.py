from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hub.logins.login_process import (
    LIMIT,
    MOST,
    MOST_OF_ONE,
    CameBack,
    LoginOrder,
    LoginPage,
    LoginRuns,
    TooManyLoginsError,
)
from tests.kit.loops import virtual_time
from tests.kit.trees import instead_of

URL = "http://127.0.0.1:9/mcp"


@pytest.mark.live
async def test_an_order_that_cannot_be_sent_ends_its_login_alone(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs, url = LoginRuns(tasks, os.environ, tmp_path), "https://x.example/\ud800"
        run = runs.begin(LoginOrder(url, directory=str(tmp_path)))
        with anyio.fail_after(20):
            await run.begun.wait()
            await run.over.wait()
        assert run.page is None
        assert run.failed == "its process failed (UnicodeEncodeError)"
        assert runs.under_way(url) is None
        assert not tasks.cancel_scope.cancel_called


def test_an_order_shows_no_secret() -> None:
    order = LoginOrder("https://x.example/mcp", directory="/", client_secret="of the hub")  # noqa: S106
    assert "of the hub" not in repr(order)


async def test_logins_of_principals_are_bounded_and_those_of_the_user_are_not(
    tmp_path: Path,
) -> None:
    def order(at: int, owner: str) -> LoginOrder:
        return LoginOrder(
            f"http://127.0.0.1:9/{at}\ud800",
            f"https://x/{at}",
            directory=str(tmp_path),
            owner=owner,
        )

    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, os.environ, tmp_path)
        for at in range(MOST):
            runs.begin(order(at, f"p{at // MOST_OF_ONE}"))
        with pytest.raises(TooManyLoginsError, match=f"{MOST_OF_ONE} logins of yours"):
            runs.begin(order(MOST, "p0"))
        with pytest.raises(TooManyLoginsError, match=f"{MOST} logins are under way"):
            runs.begin(order(MOST, "another"))
        for at in range(MOST_OF_ONE + 1):
            runs.begin(order(at, ""))
        assert runs.under_way(order(0, "").url, "p1") is None
        tasks.cancel_scope.cancel()


async def test_a_login_that_nobody_goes_on_to_takes_no_place(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, os.environ, tmp_path)
        wanted = [runs.wanted(f"http://127.0.0.1:9/{at}", "anna") for at in range(MOST + 1)]
        assert runs.wanted("http://127.0.0.1:9/0", "anna") is wanted[0]
        order = LoginOrder(
            "http://127.0.0.1:9/0", "https://x", "\ud800", directory=str(tmp_path), owner="anna"
        )
        assert runs.begin(order) is wanted[0]
        with anyio.fail_after(20):
            await wanted[0].over.wait()
        assert wanted[0].failed == "its process failed (UnicodeEncodeError)"
        assert not any(one.over.is_set() for one in wanted[1:])
        tasks.cancel_scope.cancel()


@virtual_time
async def test_a_login_that_nobody_goes_on_to_ends(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, os.environ, tmp_path)
        run = runs.wanted(URL, "anna")
        await anyio.sleep(LIMIT - 1)
        assert not run.over.is_set()
        await anyio.sleep(2)
        assert run.over.is_set()
        assert run.failed == "nobody has gone on to it"
        assert runs.under_way(URL, "anna") is None


@virtual_time
async def test_who_is_asked_again_has_time_from_then_on(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, os.environ, tmp_path)
        run = runs.wanted(URL, "anna")
        await anyio.sleep(LIMIT - 1)
        run.want()
        await anyio.sleep(LIMIT - 1)
        assert not run.over.is_set()
        await anyio.sleep(2)
        assert run.over.is_set()


async def test_a_login_that_was_given_up_can_be_wanted_again_at_once(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, os.environ, tmp_path)
        first = runs.wanted(URL, "anna")
        await anyio.lowlevel.checkpoint()
        first.cancel("its user does not want to log in now")
        order = LoginOrder(URL, "https://x", "\ud800", directory=str(tmp_path), owner="anna")
        second = runs.begin(order)
        assert second is not first
        with anyio.fail_after(20):
            await first.over.wait()
            assert first.failed == "its user does not want to log in now"
            assert runs.under_way(URL, "anna") is second
            await second.over.wait()
        assert second.failed == "its process failed (UnicodeEncodeError)"
        assert runs.under_way(URL, "anna") is None


async def test_an_answer_belongs_to_one_login_and_comes_once(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, os.environ, tmp_path)
        one, other = (
            runs.begin(LoginOrder(URL, f"https://x/{owner}", directory=str(tmp_path), owner=owner))
            for owner in ("anna", "bob")
        )
        assert runs.expecting("", "https://x/anna") is None
        one.take(LoginPage("https://login.example.com/?state=theirs&state=of+anna"))
        other.take(LoginPage("https://login.example.com/?state=of+bob"))
        assert runs.expecting("of anna", "https://x/anna") is one
        for state, there in (
            ("of anna", "https://x/bob"),
            ("theirs", "https://x/anna"),
            ("", "https://x/anna"),
            ("of ann", "https://x/anna"),
        ):
            assert runs.expecting(state, there) is None
        assert one.come_back("code=1")
        assert not one.come_back("code=2")
        assert await one.came_back() == CameBack("code=1")
        assert "code" not in repr(CameBack("code=1"))
        tasks.cancel_scope.cancel()


@pytest.mark.live
@pytest.mark.parametrize("news", ['{"type":"kept"}', '{"type":"refused","why":"none"}'])
async def test_a_login_is_over_when_its_process_says_so_and_not_when_that_ends(
    tmp_path: Path, news: str
) -> None:
    program = f"import time\nprint({news!r}, flush=True)\ntime.sleep(600)\n"
    environment = instead_of("hub.cli.logins.for_hub", program, tmp_path)
    kept: list[tuple[str, str]] = []
    async with anyio.create_task_group() as tasks:
        runs = LoginRuns(tasks, environment, tmp_path)
        runs.kept = lambda url, owner: kept.append((url, owner))
        run = runs.begin(LoginOrder(URL, directory=str(tmp_path)))
        with anyio.fail_after(20):
            await run.over.wait()
        assert run.failed == (None if "kept" in news else "none")
    assert kept == ([(URL, "")] if "kept" in news else [])
