"""Where the commands find logins, and what is said if they cannot be read or written."""

from __future__ import annotations

import errno
from typing import Final

from hub.config.models import RemoteServer
from hub.config.own_files import state_directory
from hub.errors import StartError
from hub.logins.login_files import LoginFiles
from hub.secrets.values import SecretError
from hub.system.machine import Machine

_UNFIT: Final = frozenset({errno.EPERM, errno.EINVAL, errno.ELOOP})
"""Errors of a file that is there, but that is not the hub's alone, or none of its kind."""


def login_files(machine: Machine, server: RemoteServer, owner: str = "") -> LoginFiles:
    """Return the logins of a principal, else of this machine's user, kept as the config says.

    Raises: StartError if there can be none.
    """
    directory = state_directory(machine)
    if directory is None:
        raise StartError("logins cannot be kept: there is no state directory", "Set HOME.")
    keep = None if server.auth is None else server.auth.keep
    return LoginFiles(directory, owner, in_keyring=keep == "keyring")


def unkept(name: str, exc: OSError | SecretError) -> StartError:
    """Return the error of the login at the server `name`, which cannot be read or written."""
    if isinstance(exc, SecretError):
        fix = f"{exc.fix} Or say `keep: file`."
        return StartError(f"servers.{name}.auth.keep: {exc.what}", fix)
    fix = "Make that place writable for you, or name another one in XDG_STATE_HOME."
    if exc.errno in _UNFIT:
        fix = "Make that file its owner's alone, or remove it."
    return StartError(f"{exc.filename}: {exc.strerror}", fix)
