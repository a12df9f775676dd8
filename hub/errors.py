"""Exception types: each says whose fault an error is (operator, client or child)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast


class HubError(Exception):
    """An error that a user of the hub can act on. Its text may be shown to users."""


class ConfigError(HubError):
    """The operator's config is wrong: `where` names the place and the mistake, `fix` the remedy.

    Example of `where`: `hub.yaml: servers.files.args[2]: unknown placeholder ${rots}`.
    """

    def __init__(self, where: str, fix: str) -> None:
        super().__init__(f"{where}\n{fix}")
        self.where = where
        self.fix = fix


class StartError(HubError):
    """The hub cannot run here and now (port in use, unreadable root, missing command)."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}\n{fix}")
        self.what = what
        self.fix = fix


class UsageError(HubError):
    """The command as it was called does nothing: `what` says why, `fix` how to call it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}\n{fix}")
        self.what = what
        self.fix = fix


class RootError(HubError):
    """A path cannot be a root. The text is a sentence that gives the reason."""


class RouteError(HubError):
    """A client named a tool, prompt, resource or server that does not exist."""


class ChildError(HubError):
    """A child could not answer. The text names the server, what happened and what happens next."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield all errors inside an exception group, at any depth, or `error` itself if no group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error
