"""The option `--as`: what a command shows as it is for the clients of a profile."""

from __future__ import annotations

from argparse import ArgumentParser

from hub.app.profiles import profile_rules
from hub.config.models import HubConfig
from hub.errors import ConfigError
from hub.server.http.auth.admission import Admission


def add_profile_option(parser: ArgumentParser) -> None:
    """Add `--as` to a subcommand."""
    help_text = "as it is for the clients of this profile, or for the token of this name"
    parser.add_argument("--as", dest="profile", metavar="PROFILE", help=help_text)


def chosen_profile(config: HubConfig, wanted: str | None) -> str | None:
    """Return the profile that is `wanted`, by its name or by that of a token; None without one.

    Raises: ConfigError if there is none.
    """
    if wanted is None or wanted in config.profiles:
        return wanted
    tokens = ("token", *(one.name for one in config.listen.tokens))
    if wanted in tokens:
        held = profile_rules(config).of(Admission(wanted))
        if held:
            return held[0]
        raise ConfigError(
            f"profiles: none is for the token {wanted}: its clients are refused",
            f"Add a profile with `match: {{tokens: [{wanted}]}}`.",
        )
    known = ", ".join(config.profiles) or "none"
    raise ConfigError(f"--as {wanted}: there is no such profile or token", f"Profiles: {known}.")
