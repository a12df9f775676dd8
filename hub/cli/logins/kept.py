"""Where the commands find logins, and what is said if they cannot be read or written."""

from __future__ import annotations

from hub.config.own_files import state_directory
from hub.errors import StartError
from hub.logins.login_files import LoginFiles
from hub.system.machine import Machine


def login_files(machine: Machine) -> LoginFiles:
    """Return the logins of this machine's user.

    Raises: StartError if there can be none.
    """
    directory = state_directory(machine)
    if directory is None:
        raise StartError("logins cannot be kept: there is no state directory", "Set HOME.")
    return LoginFiles(directory)


def unkept(exc: OSError) -> StartError:
    """Return the error of logins that cannot be read or written."""
    fix = "Make that file its owner's alone, or remove it."
    return StartError(f"{exc.filename}: {exc.strerror}", fix)
