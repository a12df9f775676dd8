"""The error of a text that cannot be edited without the risk of changing something else."""

from __future__ import annotations

from typing import NoReturn

from hub.errors import ConfigError


def awkward(where: str) -> NoReturn:
    """Refuse to edit what is written at `where`.

    Raises: ConfigError.
    """
    raise ConfigError(
        f"{where}: cannot be edited safely in the form it is written in",
        "Nothing was changed. Edit the file by hand.",
    )
