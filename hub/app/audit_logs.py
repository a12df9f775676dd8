"""The open audit logs of a hub."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import structlog

from hub.audit.log_file import AuditSink, LoggedAudit, NoAudit, audit_log
from hub.audit.open_file import UnfitFileError
from hub.config.models import HubConfig
from hub.errors import StartError
from hub.system.log import is_logged

log = structlog.stdlib.get_logger(__name__)


class AuditLogs:
    """The open audit logs, by file: views with one file share its log. `files` closes them."""

    def __init__(self, files: ExitStack) -> None:
        self._files = files
        self._open: dict[str | None, AuditSink] = {}

    def of(self, config: HubConfig) -> AuditSink:
        """Return the audit log of a config.

        Raises: StartError if its file cannot be written.
        """
        file = None if config.audit is None else config.audit.file
        if file not in self._open:
            sink = self._files.enter_context(_audit_file(file))
            self._open[file] = LoggedAudit(sink) if is_logged("debug") else sink
        return self._open[file]


def _audit_file(file: str | None) -> AbstractContextManager[AuditSink]:
    if file is None:
        return nullcontext(NoAudit())
    try:
        return audit_log(Path(file))
    except UnfitFileError as exc:
        raise StartError(f"audit.file {file}: {exc.strerror}", exc.fix) from exc
    except OSError as exc:
        raise StartError(
            f"audit.file {file}: {exc.strerror}", "Name a file that the hub may write."
        ) from exc
