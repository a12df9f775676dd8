from __future__ import annotations

from msgspec import Raw

from hub.runtime.asker import CallAsker
from hub.runtime.wire import Notification, as_object
from tests.fakes import RecordingOutlet
from tests.runtime.rigs import remote, rig

FILES = remote("files")
LOG = Notification("notifications/message", {"level": "info", "data": 1})


async def test_what_a_child_tells_during_a_call_goes_out_through_that_call() -> None:
    async with rig({}, {}) as at:
        client, response = at.client(), RecordingOutlet()
        asker = CallAsker(client.session, response, None)
        assert asker.has_told_all
        await asker.tell(FILES, LOG)
        assert not asker.has_told_all
        await asker.flush()
        assert asker.has_told_all
        assert response.messages == [LOG]
        assert client.outlet.messages == []
        assert asker.session == client.session.key


async def test_reports_reach_the_client_under_its_own_token() -> None:
    async with rig({}, {}) as at:
        response = RecordingOutlet()
        asker = CallAsker(at.client().session, response, "mine")
        assert asker.progress is not None
        await asker.progress(Raw(b'{"progressToken":7,"progress":1}'))
        await asker.flush()
        assert response.messages == [
            Notification("notifications/progress", {"progressToken": "mine", "progress": 1})
        ]


async def test_a_client_without_a_token_wants_no_reports() -> None:
    async with rig({}, {}) as at:
        asker = CallAsker(at.client().session, RecordingOutlet(), None)
        assert asker.progress is None
        await asker.flush()


async def test_a_childs_question_is_answered_by_the_client_of_the_call() -> None:
    async with rig({}, {}) as at:
        client = at.client(capabilities={"sampling": {}})
        client.answers["sampling/createMessage"] = {"role": "assistant"}
        asker = CallAsker(client.session, client.outlet, None)
        assert as_object(await asker.ask("sampling/createMessage", {})) == {"role": "assistant"}
