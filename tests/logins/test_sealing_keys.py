from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hub.errors import ChildError
from hub.logins.access_tokens import AccessTokens
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from hub.secrets.reading import SecretError
from tests.kit.keyrings import FileKeyring
from tests.logins.test_login_files import LOGIN, URL

ENTRY = "roots-hub/logins"


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[FileKeyring]:
    """Return the user's keyring."""
    made = FileKeyring(tmp_path / "keyring")
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    monkeypatch.syspath_prepend(made.directory)  # pyright: ignore[reportUnknownMemberType] - pytest gives its argument no type
    yield made
    sys.modules.pop("keyring", None)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


def logins(directory: Path) -> LoginFiles:
    """Return the logins of one process."""
    return LoginFiles(directory, in_keyring=True)


def test_the_keyring_has_the_key_and_the_file_the_login(
    keyring: FileKeyring, directory: Path
) -> None:
    logins(directory).prepare()
    (key,) = keyring.passwords.values()
    assert len(key) == 64
    large = replace(LOGIN, access_token="t" * 10_000)
    logins(directory).write(URL, large)
    assert logins(directory).read(URL) == large
    assert keyring.passwords == {ENTRY: key}
    (file,) = [path for path in directory.rglob("*") if path.is_file()]
    assert b"s3cret" not in file.read_bytes()


def test_no_login_is_opened_without_its_key(keyring: FileKeyring, directory: Path) -> None:
    logins(directory).write(URL, LOGIN)
    assert LoginFiles(directory).read(URL) is None
    keyring.become()
    assert logins(directory).read(URL) is None
    keyring.become(**{ENTRY: "0" * 64})
    assert logins(directory).read(URL) is None


def test_a_keyring_is_not_loaded_where_it_is_not_asked_for(
    keyring: FileKeyring, directory: Path
) -> None:
    files = LoginFiles(directory)
    files.write(URL, LOGIN)
    assert files.read(URL) == LOGIN
    assert logins(directory).read(f"{URL}/none") is None
    assert "keyring" not in sys.modules
    assert keyring.passwords == {}


def test_a_new_key_of_another_process_is_found(keyring: FileKeyring, directory: Path) -> None:
    files = logins(directory)
    files.write(URL, LOGIN)
    keyring.become()
    newer = replace(LOGIN, access_token="newer")  # noqa: S106 - opens nothing
    logins(directory).write(URL, newer)
    assert files.read(URL) == newer
    files.write(URL, LOGIN)
    assert logins(directory).read(URL) == LOGIN


async def test_a_login_is_renewed_though_the_keyring_was_locked_since(
    keyring: FileKeyring, directory: Path
) -> None:
    files = logins(directory)
    files.write(URL, LOGIN)
    now = 100.0

    async def renew(login: Login, at: float) -> Login:
        return replace(login, access_token="new", issued=at, expires=at + 60)  # noqa: S106 - opens nothing

    tokens = AccessTokens("far", URL, files, lambda: now, renew)
    assert await tokens.current() == LOGIN.access_token
    keyring.become(is_missing=True)
    now = 200.0
    assert await tokens.current() == "new"
    found = files.read(URL)
    assert found is not None
    assert found.access_token == "new"  # noqa: S105 - opens nothing


async def test_a_locked_keyring_keeps_nothing_else_waiting(
    keyring: FileKeyring, directory: Path
) -> None:
    """Who waits for the keyring can stop: the thread that hangs is not waited for."""
    logins(directory).write(URL, LOGIN)
    keyring.become(is_locked=True)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(logins(directory).find, URL)
            await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()


async def test_a_keyring_that_fails_is_told_to_a_client(
    keyring: FileKeyring, directory: Path
) -> None:
    logins(directory).write(URL, LOGIN)
    keyring.become(is_missing=True)
    tokens = AccessTokens("far", URL, logins(directory), lambda: 100.0)
    with pytest.raises(ChildError) as caught:
        await tokens.current()
    assert str(caught.value) == (
        "its login cannot be read: the keyring cannot be read (RuntimeError). "
        "Run `keyring diagnose`"
    )


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"forgets": True}, "the keyring keeps nothing"),
        ({"is_missing": True}, "the keyring cannot be read"),
        ({ENTRY: "mine"}, "roots-hub/logins in the keyring is no key of the hub's"),
    ],
)
def test_a_keyring_that_cannot_have_a_key_is_refused(
    keyring: FileKeyring, directory: Path, state: dict[str, object], why: str
) -> None:
    keyring.become(**state)
    with pytest.raises(SecretError, match=why):
        logins(directory).prepare()
