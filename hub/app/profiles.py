"""Which profile is for whom, from the config."""

from __future__ import annotations

from hub.config.listening.profile import ClientMatch
from hub.config.models import HubConfig
from hub.server.http.auth.profile_rules import ProfileMatch, ProfileRules


def profile_rules(config: HubConfig) -> ProfileRules:
    """Return which clients have which profile of a config."""
    return ProfileRules(
        {
            name: None if profile.match is None else tuple(map(_match, profile.match))
            for name, profile in config.profiles.items()
        }
    )


def _match(one: ClientMatch) -> ProfileMatch:
    return ProfileMatch(frozenset(one.tokens), one.issuer, one.wanted_claims)
