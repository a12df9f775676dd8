"""The errors: who is at fault, and what a client or an operator may read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast


class HubError(Exception):
    """Something a user of the hub can act on; its text is fit to be shown to them."""


class ConfigError(HubError):
    """The operator's configuration is wrong: `where` says what and where, `fix` what to do.

    `where` reads like `hub.yaml: servers.files.args[2]: unknown placeholder ${rots}`.
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


class RootError(HubError):
    """A path cannot serve as a root; the text is the sentence that says why."""


class RouteError(HubError):
    """A client named a tool, prompt, resource or server that is not there."""


class ChildError(HubError):
    """A child could not answer: the text names the server, what happened and what happens next."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a group is made of, however deep: `error` itself if it is no group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error
