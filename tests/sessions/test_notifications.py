from __future__ import annotations

import pytest
from msgspec import Raw

from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Notification
from hub.jsonrpc.peer import Peer
from hub.protocol.constants import INTERNAL_ERROR, LIST_CHANGED, METHOD_NOT_FOUND
from hub.protocol.input_requests import ELICITED
from hub.sessions.client import LONGEST_ID, Client, ClientNotifier
from hub.values import JsonObject
from tests.kit.fakes import RecordingOutlet, failure
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import Rig, RigClient, remote, rig

SAMPLING, ELICITATION = "sampling/createMessage", "elicitation/create"
MESSAGE, UPDATED = "notifications/message", "notifications/resources/updated"
FILES = remote("files")


class Nobody:
    """A client that has not said who it is yet."""

    client: Client | None = None
    peer: Peer | None = None


def modern(at: Rig) -> RigClient:
    client = at.client(capabilities={"sampling": {}})
    client.session.greeted(Client("modern", "2026-07-28", {"sampling": {}}, {}))
    return client


async def heard(client: RigClient, notification: Notification) -> list[JsonObject]:
    """Send a client notifications; returns those that it received."""
    before = len(client.outlet.messages)
    client.session.notifier.tell(FILES, notification, None)
    await client.session.notifier.send_queue.flush()
    return client.outlet.lines[before:]


# Asking


@pytest.mark.parametrize(
    ("capability", "method"), [("sampling", SAMPLING), ("elicitation", ELICITATION)]
)
async def test_what_a_child_asks_goes_to_a_client_that_can_answer_it(
    capability: str, method: str
) -> None:
    async with rig({}, {}) as at:
        able = at.client(capabilities={capability: {}})
        notifier = able.session.notifier
        able.answers[method] = {"role": "assistant", "unknown": 1}
        found = await notifier.ask(method, {"messages": []}, able.outlet)
        assert found == {"role": "assistant", "unknown": 1}
        able.answers[method] = failure(-1, "the user said no")
        with pytest.raises(RpcError, match="the user said no"):
            await notifier.ask(method, {}, None)


async def test_a_client_that_cannot_answer_is_not_asked() -> None:
    async with rig({}, {}) as at:
        unable, other = at.client(capabilities={"sampling": False}), modern(at)
        nobody = ClientNotifier(Nobody(), at.tasks)
        for notifier in (unable.session.notifier, other.session.notifier, nobody):
            with pytest.raises(RpcError) as caught:
                await notifier.ask(SAMPLING, {}, None)
            assert caught.value.code == METHOD_NOT_FOUND
        assert unable.outlet.messages == other.outlet.messages == []


async def test_an_unsupported_request_is_an_error_that_names_the_capability() -> None:
    async with rig({}, {}) as at:
        for client in (at.client(), modern(at)):
            with pytest.raises(RpcError, match=f"{ELICITATION} in URL mode$"):
                await client.session.notifier.ask(ELICITATION, {"mode": "url"}, None)


async def test_a_request_to_a_disconnected_client_is_an_error() -> None:
    async with rig({}, {}) as at:
        client = at.client(capabilities={"sampling": {}})
        client.outlet.gone = True
        with pytest.raises(RpcError, match="the client is gone") as caught:
            await client.session.notifier.ask(SAMPLING, {}, None)
        assert caught.value.code == INTERNAL_ERROR


# Telling


@pytest.mark.parametrize("method", LIST_CHANGED)
async def test_a_client_hears_that_a_list_has_changed(method: str) -> None:
    async with rig({}, {}) as at:
        assert await heard(at.client(), Notification(method, {})) == [
            {"jsonrpc": "2.0", "method": method}
        ]


async def test_a_client_hears_no_more_of_the_log_than_it_wants() -> None:
    async with rig({}, {}) as at:
        client = at.client()
        for level, wanted, sent in (
            ("debug", None, True),
            ("debug", "info", False),
            ("info", "info", True),
            ("emergency", "info", True),
            ("strange", "emergency", True),
            (None, "emergency", True),
        ):
            client.session.notifier.log_level = wanted
            message = Notification(MESSAGE, {"level": level, "data": 1})
            assert bool(await heard(client, message)) is sent, (level, wanted)


async def test_a_message_of_the_log_that_cannot_be_read_is_not_passed_on() -> None:
    async with rig({}, {}) as at:
        client = at.client()
        client.session.notifier.log_level = "info"
        with pytest.raises(WireError):
            client.session.notifier.tell(FILES, Notification(MESSAGE, Raw(b'{"a":NaN}')), None)
        assert client.outlet.messages == []


async def test_a_client_hears_of_the_resources_that_it_subscribed_to_by_their_public_names() -> (
    None
):
    async with rig({}, {}) as at:
        client = at.client()
        public = "hub+files:file:///x"
        client.session.notifier.subscriptions[FILES.name, "file:///x"] = public
        sent = await heard(client, Notification(UPDATED, {"uri": "file:///x", "more": 1}))
        assert sent[0]["params"] == {"uri": public, "more": 1}
        for unknown in ({"uri": "file:///y"}, {"uri": None}, {}):
            assert await heard(client, Notification(UPDATED, dict[str, object](unknown))) == []  # pyright: ignore[reportArgumentType] - JSON


async def test_notifications_for_the_hub_are_not_passed_on() -> None:
    async with rig({}, {}) as at:
        assert await heard(at.client(), Notification("notifications/odd", {})) == []
        changed = Notification("notifications/tools/list_changed", {})
        assert await heard(modern(at), changed) == []
        nobody = ClientNotifier(Nobody(), at.tasks)
        nobody.tell(FILES, changed, None)
        nobody.send(changed, None)
        await nobody.send_queue.flush()


async def test_notifications_of_a_call_use_the_calls_outlet() -> None:
    async with rig({}, {}) as at:
        client, call = at.client(), RecordingOutlet()
        notifier = client.session.notifier
        notifier.tell(FILES, Notification(MESSAGE, {"data": 1}), call)
        notifier.send(Notification("notifications/progress", {"progress": 1}), call)
        await notifier.send_queue.flush()
        assert [line["method"] for line in call.lines] == [MESSAGE, "notifications/progress"]
        assert client.outlet.messages == []


async def test_a_client_that_does_not_read_delays_no_sender() -> None:
    async with rig({}, {}) as at:
        stuck, well = at.client(), at.client()
        stuck.outlet.stuck = True
        for _ in range(3):
            stuck.session.notifier.tell(FILES, Notification(MESSAGE, {}), None)
        assert await heard(well, Notification(MESSAGE, {})) != []
        await all_tasks_blocked()
        assert len(stuck.outlet.messages) == 1


async def test_unread_notifications_are_dropped() -> None:
    async with rig({}, {}) as at:
        client = at.client()
        client.outlet.gone = True
        assert await heard(client, Notification(MESSAGE, {})) == []
        client.outlet.gone = False
        assert len(await heard(client, Notification(MESSAGE, {}))) == 1


async def test_a_modern_client_reads_logs_of_its_own_call_from_its_level_on() -> None:
    async with rig({}, {}) as at:
        client = modern(at)
        notifier, outlet = client.session.notifier, client.outlet
        for level in ("warning", None):
            notifier.log_level = level
            for said in ("info", "error"):
                for through in (None, outlet):
                    told = Notification(MESSAGE, {"level": said, "data": 1})
                    notifier.tell(FILES, told, through)
        await notifier.send_queue.flush()
        assert [line["params"] for line in outlet.lines] == [{"level": "error", "data": 1}]


async def test_an_elicitation_is_remembered_by_its_id_unless_that_is_long() -> None:
    async with rig({}, {}) as at:
        client, ids = at.client(), ("e1", "e" * (LONGEST_ID + 1))
        for id_ in ids:
            client.session.notifier.sent_to(id_)
        told = [await heard(client, Notification(ELICITED, {"elicitationId": id_})) for id_ in ids]
        assert [len(lines) for lines in told] == [1, 0]
