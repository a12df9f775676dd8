"""The keys of `limits`: how much each principal may use over HTTP, in all or in a profile."""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from hub.config.fields import Count, FieldError, Part
from hub.usage.limits import UsageLimits

Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class PrincipalLimits(Part):
    """Limits that hold for each principal on its own, however many sessions it has."""

    calls_per_second: Rate | None = None
    calls_per_minute: Count | None = None
    burst: Count | None = None
    in_flight: Count | None = None
    sessions: Count | None = None
    children: Count | None = None
    bytes_per_minute: Count | None = None

    @model_validator(mode="after")
    def _has_a_rate(self) -> Self:
        if self.burst is not None and self.calls_per_second is None:
            what = "burst counts with calls_per_second alone"
            raise FieldError(what, "Set calls_per_second, or take burst out.")
        return self

    def values(self, profile: str | None = None) -> UsageLimits | None:
        """Return them as they are used, those of a profile or of `listen`; None if none is set."""
        said = self.model_dump(exclude_none=True)
        key = "listen.limits" if profile is None else f"profiles.{profile}.limits"
        return UsageLimits(key=key, profile=profile, **said) if said else None
