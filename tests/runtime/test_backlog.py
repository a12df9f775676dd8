from __future__ import annotations

import anyio
import pytest

from hub.runtime import backlog as backlog_module
from hub.runtime.backlog import Backlog


@pytest.mark.parametrize("ends", ["sent", "closed"])
async def test_somebody_who_does_not_read_has_to_wait(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_module, "MAX_UNSENT", 1)
    backlog = Backlog()
    await backlog.room()
    was_let_in = anyio.Event()

    async def wait() -> None:
        await backlog.room()
        was_let_in.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            with backlog.sending():
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                assert not was_let_in.is_set()
                if ends == "closed":
                    backlog.close()
                    await was_let_in.wait()
            await was_let_in.wait()


async def test_it_is_idle_once_every_request_has_ended() -> None:
    backlog = Backlog()
    await backlog.idle()
    backlog.begun()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(backlog.idle)
            await anyio.wait_all_tasks_blocked()
            backlog.ended()
