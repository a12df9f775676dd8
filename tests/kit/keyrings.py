"""A package `keyring` for tests, whose passwords are in a file: also for programs of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_CODE: Final = """\
import json, pathlib, threading
PLACE = pathlib.Path(__file__).with_name("passwords.json")

def _all():
    found = json.loads(PLACE.read_text())
    if found.get("is_locked"):
        threading.Event().wait()
    if found.get("is_missing"):
        raise RuntimeError("s3cret")
    return found

def get_password(service, user):
    return _all().get(f"{service}/{user}")

def set_password(service, user, password):
    found = _all()
    if not found.get("forgets"):
        PLACE.write_text(json.dumps({**found, f"{service}/{user}": password}))
"""


class FileKeyring:
    """The package in `directory`, which has to be on Python's path, and what its keyring has."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "keyring.py").write_text(_CODE)
        self.directory = directory
        self._place = directory / "passwords.json"
        self.become()

    def become(self, **state: Any) -> None:
        """Replace all that the keyring has; `is_locked`, `is_missing`, `forgets`: what it does."""
        self._place.write_text(json.dumps(state))

    @property
    def passwords(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self._place.read_text())
        return found
