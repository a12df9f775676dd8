"""Exception types: each says whose fault an error is (operator, client or child)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from msgspec import Struct


class HubError(Exception):
    """An error that a user of the hub can act on. Its text may be shown to users."""


class Fault(Struct, frozen=True):
    """One mistake in a config: `where` names the place, `what` the mistake, `fix` the remedy.

    Example: `hub.yaml: servers.files.args[2]`, `the variable X is not set`. `excerpt` shows the
    line, without secrets. It is empty if there is none, and so is `where`.
    """

    where: str
    what: str
    fix: str
    excerpt: str = ""

    @property
    def said(self) -> str:
        """Place and mistake."""
        return ": ".join(filter(None, (self.where, self.what)))

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.said, self.fix, self.excerpt)))


class ConfigError(HubError):
    """The operator's config is wrong. It has at least one of `faults`."""

    faults: tuple[Fault, ...]

    def __init__(self, where: str, what: str, fix: str) -> None:
        self._take((Fault(where, what, fix),))

    @classmethod
    def of(cls, faults: Sequence[Fault]) -> ConfigError:
        """Return the error with these faults, at least one."""
        made = cls.__new__(cls)
        made._take((*faults,))
        return made

    def _take(self, faults: tuple[Fault, ...]) -> None:
        count = f"\n\n{len(faults)} mistakes." if len(faults) > 1 else ""
        super().__init__("\n\n".join(map(str, faults)) + count)
        self.faults = faults


class StartError(HubError):
    """The hub cannot run here and now (port in use, unreadable root, missing command)."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}\n{fix}")
        self.what = what
        self.fix = fix


class UsageError(StartError):
    """The command as it was called does nothing: `what` says why, `fix` how to call it."""


class RootError(HubError):
    """A path cannot be a root. The text is a sentence that gives the reason."""


class RouteError(HubError):
    """A client named a tool, prompt, resource or server that does not exist."""


class InsufficientScopeError(HubError):
    """A client's token lacks `missing`, of the scopes `needed` for what was asked."""

    def __init__(self, needed: Sequence[str], missing: Sequence[str]) -> None:
        noun = "scope" if len(missing) == 1 else "scopes"
        super().__init__(f"The token lacks the {noun} {' '.join(missing)}")
        self.needed = tuple(needed)


class ChildError(HubError):
    """A child could not answer. The text names the server, what happened and what happens next."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield all errors inside an exception group, at any depth, or `error` itself if no group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error
