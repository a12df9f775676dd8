from __future__ import annotations

import os
from pathlib import Path

import anyio

from hub.logins.login_process import LoginOrder, LoginRuns


async def test_an_order_that_cannot_be_sent_ends_its_login_alone(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        runs, url = LoginRuns(tasks, os.environ, tmp_path), "https://x.example/\ud800"
        run = runs.begin(LoginOrder(url, str(tmp_path)))
        with anyio.fail_after(5):
            await run.begun.wait()
            await run.over.wait()
        assert run.page is None
        assert run.failed == "its process failed (UnicodeEncodeError)"
        assert runs.under_way(url) is None
        assert not tasks.cancel_scope.cancel_called


def test_an_order_shows_no_secret() -> None:
    order = LoginOrder("https://x.example/mcp", "/", client_secret="of the hub")  # noqa: S106
    assert "of the hub" not in repr(order)
