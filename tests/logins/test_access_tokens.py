from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hub.errors import ChildError
from hub.logins.access_tokens import LOOK_EVERY, PAUSE, AccessTokens
from hub.logins.issuer_requests import LoginEndedError, RenewalFailedError
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from tests.kit.loops import virtual_time
from tests.logins.test_login_files import LOGIN, URL


class RenewingIssuer:
    """Gives a new token each time, for 60 seconds; `fails` with an error if it is set."""

    def __init__(self) -> None:
        self.asked = self.count = 0
        self.shown = list[str | None]()
        self.pause = 0.01
        self.is_asked = anyio.Event()
        self.fails: Exception | None = None

    async def renew(self, login: Login, now: float) -> Login:
        self.asked += 1
        self.shown.append(login.refresh_token)
        self.is_asked.set()
        await anyio.sleep(self.pause)
        if self.fails is not None:
            raise self.fails
        self.count += 1
        return replace(
            login,
            access_token=f"token {self.count}",
            refresh_token=f"refresh {self.count}",
            issued=now,
            expires=now + 60,
        )


class LoginBench:
    """Two processes of a hub, as it were, that have logins in one directory."""

    def __init__(self, directory: Path, login: Login | None = LOGIN) -> None:
        self.now = 100.0
        self.issuer = RenewingIssuer()
        self.files = LoginFiles(directory)
        if login is not None:
            self.files.write(URL, login)

    def tokens(self) -> AccessTokens:
        return AccessTokens("far", URL, self.files, lambda: self.now, self.issuer.renew)


async def test_a_token_is_used_until_shortly_before_its_end(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens = bench.tokens()
    for now in (100.0, 147.0):
        bench.now = now
        assert await tokens.current() == LOGIN.access_token
    bench.now = 148.0
    assert await tokens.current() == "token 1"
    assert bench.issuer.count == 1
    kept = bench.files.read(URL)
    assert kept is not None
    assert (kept.access_token, kept.refresh_token) == ("token 1", "refresh 1")


@pytest.mark.long
async def test_many_requests_renew_a_token_once_in_all_processes(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    processes, found = [bench.tokens() for _ in range(4)], list[str]()

    async def ask(tokens: AccessTokens) -> None:
        found.append(await tokens.current())

    for round_ in range(1, 6):
        bench.now += 55
        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(ask, processes[number % 4])
        assert set(found) == {f"token {round_}"}
        assert bench.issuer.count == round_
        found.clear()


async def test_a_token_that_the_server_refuses_is_renewed_once(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path, replace(LOGIN, expires=None))
    tokens, found = bench.tokens(), list[str | None]()
    refused = await tokens.current()

    async def ask() -> None:
        found.append(await tokens.after(refused))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    assert found == ["token 1"] * 10
    assert bench.issuer.count == 1


async def test_without_a_login_the_command_is_told(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="nobody is logged in: run `roots-hub login far`"):
        await LoginBench(tmp_path, None).tokens().current()


async def test_a_login_that_has_ended_names_the_command_and_no_secret(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    bench.issuer.fails = LoginEndedError("its authorization server says invalid_grant")
    bench.now = 200.0
    with pytest.raises(ChildError) as caught:
        await bench.tokens().current()
    assert "roots-hub login far" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_while_its_issuer_is_down_a_token_counts_until_its_end(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens = bench.tokens()
    bench.issuer.fails = RenewalFailedError("its authorization server cannot be asked")
    bench.now = 150.0
    assert await tokens.current() == LOGIN.access_token
    bench.issuer.fails = None
    assert await tokens.current() == LOGIN.access_token, "it was asked just now"
    bench.now += PAUSE
    assert await tokens.current() == "token 1"
    bench.now += 60
    bench.issuer.fails = RenewalFailedError("its authorization server cannot be asked")
    with pytest.raises(ChildError, match="cannot be renewed now"):
        await tokens.current()


async def test_a_new_login_counts_at_once_where_the_old_one_has_ended(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens = bench.tokens()
    await tokens.current()
    bench.issuer.fails = LoginEndedError("no")
    bench.now = 200.0
    bench.files.write(URL, replace(LOGIN, access_token="again", issued=190.0, expires=300.0))  # noqa: S106 - opens nothing
    assert await tokens.current() == "again"


async def test_the_scope_that_a_server_wants_is_kept_for_the_next_login(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens = bench.tokens()
    await tokens.lack("write")
    bench.now = 150.0
    await tokens.current()
    kept = bench.files.read(URL)
    assert kept is not None
    assert (kept.access_token, kept.wanted) == ("token 1", "write")


async def test_a_request_that_is_cancelled_loses_no_renewed_login(tmp_path: Path) -> None:
    """A refresh token is often used up when new tokens come: they are kept in any case."""
    bench = LoginBench(tmp_path)
    bench.now = 150.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tokens().current)
        await bench.issuer.is_asked.wait()
        tasks.cancel_scope.cancel()
    kept = bench.files.read(URL)
    assert kept is not None
    assert (kept.access_token, kept.refresh_token) == ("token 1", "refresh 1")


@pytest.mark.parametrize(
    "error", [LoginEndedError("its authorization server says invalid_grant"), RenewalFailedError()]
)
async def test_requests_that_wait_do_not_all_ask_in_vain(tmp_path: Path, error: Exception) -> None:
    bench = LoginBench(tmp_path)
    tokens, bench.now, bench.issuer.fails, errors = bench.tokens(), 200.0, error, list[str]()

    async def ask() -> None:
        with pytest.raises(ChildError) as caught:
            await tokens.current()
        errors.append(str(caught.value))

    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(ask)
    assert len(errors) == 64
    assert len(set(errors)) == 1
    assert bench.issuer.asked == 1


async def test_a_login_that_could_not_be_renewed_is_tried_again_later(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens, bench.now, bench.issuer.fails = bench.tokens(), 200.0, RenewalFailedError("down")
    with pytest.raises(ChildError, match="cannot be renewed now: down"):
        await tokens.current()
    bench.issuer.fails = None
    with pytest.raises(ChildError, match="down"):
        await tokens.current()
    bench.now += PAUSE
    assert await tokens.current() == "token 1"


async def test_a_new_login_counts_where_the_old_one_could_not_be_renewed(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens, bench.now, bench.issuer.fails = bench.tokens(), 200.0, LoginEndedError("no")
    with pytest.raises(ChildError, match="its login has ended"):
        await tokens.current()
    bench.files.write(URL, replace(LOGIN, access_token="again", issued=190.0, expires=300.0))  # noqa: S106 - opens nothing
    assert await tokens.current() == "again"


@pytest.mark.long
@virtual_time
async def test_hours_with_tokens_of_a_minute_take_one_renewal_for_each(tmp_path: Path) -> None:
    """Two processes with 64 requests at a time, one of which begins anew each simulated hour."""
    bench, found, minutes = LoginBench(tmp_path), set[str](), 3 * 60
    bench.issuer.pause = 0
    processes = [bench.tokens() for _ in range(2)]

    async def ask(tokens: AccessTokens) -> None:
        found.add(await tokens.current())

    for minute in range(minutes):
        bench.now += 60
        if minute % 60 == 0:
            processes[minute // 60 % 2] = bench.tokens()
        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(ask, processes[number % 2])
        assert found == {f"token {minute + 1}"}
        found.clear()
    assert bench.issuer.asked == minutes


async def test_a_logout_counts_soon_for_a_token_that_would_last_on(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path, replace(LOGIN, expires=None))
    tokens = bench.tokens()
    assert await tokens.current() == LOGIN.access_token
    bench.files.remove(URL)
    bench.now += LOOK_EVERY
    for _ in range(2):
        with pytest.raises(ChildError, match="nobody is logged in"):
            await tokens.current()


async def test_a_login_of_another_account_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path, replace(LOGIN, expires=None))
    tokens = bench.tokens()
    await tokens.current()
    another = replace(LOGIN, expires=None, access_token="another")  # noqa: S106
    bench.files.write(URL, another)
    bench.now += LOOK_EVERY
    assert await tokens.current() == another.access_token


async def test_a_login_that_cannot_be_read_meanwhile_is_used_on(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path, replace(LOGIN, expires=None))
    tokens = bench.tokens()
    await tokens.current()
    (file,) = [path for path in (tmp_path / "logins").iterdir() if not path.suffix]
    file.unlink()
    file.mkdir()
    bench.now += LOOK_EVERY
    assert await tokens.current() == LOGIN.access_token


async def test_a_renewed_login_that_could_not_be_kept_is_not_taken_back(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens = bench.tokens()
    bench.now = 148.0
    bench.files.write = _full
    assert await tokens.current() == "token 1"
    bench.now += LOOK_EVERY
    assert await tokens.current() == "token 1"


async def test_a_renewed_login_that_could_not_be_kept_is_the_one_that_is_renewed(
    tmp_path: Path,
) -> None:
    """The refresh token in the file is used up: with it the login would be over."""
    bench = LoginBench(tmp_path)
    tokens, write = bench.tokens(), bench.files.write
    bench.now, bench.files.write = 148.0, _full
    await tokens.current()
    bench.files.write, bench.now = write, 208.0
    assert await tokens.current() == "token 2"
    assert bench.issuer.shown[-1] == "refresh 1"


async def test_a_wanted_scope_is_kept_with_a_renewed_login_that_could_not_be(
    tmp_path: Path,
) -> None:
    bench = LoginBench(tmp_path)
    tokens, write = bench.tokens(), bench.files.write
    bench.now, bench.files.write = 148.0, _full
    await tokens.current()
    bench.files.write = write
    await tokens.lack("write")
    kept = bench.files.read(URL)
    assert kept is not None
    assert (kept.access_token, kept.wanted) == ("token 1", "write")


async def test_a_logout_counts_for_a_renewed_login_that_could_not_be_kept(tmp_path: Path) -> None:
    bench = LoginBench(tmp_path)
    tokens = bench.tokens()
    bench.now, bench.files.write = 148.0, _full
    await tokens.current()
    bench.files.remove(URL)
    bench.now += LOOK_EVERY
    with pytest.raises(ChildError, match="nobody is logged in"):
        await tokens.current()


def _full(url: str, login: Login) -> None:
    raise OSError(28, "No space left on device")
