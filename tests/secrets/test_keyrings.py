from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from hub.secrets.reading import SecretError, is_installed, keyring_value

STORE = """
import threading
SECRETS = {("service", "user"): "t0ken"}
def get_password(service, user):
    if service == "broken":
        raise RuntimeError("t0ken")
    if service == "asking":
        threading.Event().wait()
    return SECRETS.get((service, user))
"""

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what installs a package named keyring, in the place of a real one."""

    def installed(code: str) -> None:
        (tmp_path / "keyring.py").write_text(code)

    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] - untyped
    return installed


@pytest.fixture(autouse=True)
def forgotten() -> object:
    yield
    sys.modules.pop("keyring", None)


def test_a_password_is_read_from_the_keyring(install: Install) -> None:
    install(STORE)
    assert is_installed()
    assert keyring_value("service", "user", Event()) == "t0ken"


def test_what_the_keyring_does_not_have_is_told(install: Install) -> None:
    install(STORE)
    with pytest.raises(SecretError, match="the keyring has no other/user") as raised:
        keyring_value("other", "user", Event())
    assert raised.value.fix == "Run `keyring set other user`."


def test_an_error_of_the_keyring_is_told_without_its_text(install: Install) -> None:
    install(STORE)
    with pytest.raises(SecretError, match=r"cannot be read \(RuntimeError\)") as raised:
        keyring_value("broken", "user", Event())
    assert "t0ken" not in str(raised.value)


def test_a_keyring_that_does_not_answer_keeps_nobody(install: Install) -> None:
    install(STORE)
    with pytest.raises(SecretError, match=r"did not answer within 0\.01 s"):
        keyring_value("asking", "user", Event(), limit=0.01)


def test_without_the_package_its_name_is_told(install: Install) -> None:
    # As if it were not installed, whether it is or not.
    install("raise ModuleNotFoundError('no keyring', name='keyring')")
    with pytest.raises(SecretError) as raised:
        keyring_value("service", "user", Event())
    assert str(raised.value) == (
        "the package `keyring` is not installed. Install it: pip install 'roots-hub[keyring]'"
    )


def test_a_backend_that_lacks_another_package_is_broken(install: Install) -> None:
    install("import no_such_package_of_a_backend")
    with pytest.raises(SecretError, match=r"cannot be read \(ModuleNotFoundError\)"):
        keyring_value("service", "user", Event())
