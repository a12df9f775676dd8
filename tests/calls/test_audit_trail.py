from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from hub.calls.audit_trail import CallAudit, looking_up
from hub.children.clients import InputNeededError, StaleError
from hub.errors import ChildError, RouteError
from hub.guard.policy import Mode, Policy
from hub.jsonrpc.errors import RpcError
from hub.protocol.input_requests import NO_STATE
from hub.values import Call, ServerName
from tests.kit.fakes import READ, SILENT, FakeChild, failure
from tests.kit.rigs import Rig, admitted, remote, rig
from tests.kit.trees import plant

CALL = Call("tools/call", "read", {}, {})


def recording(at: Rig) -> CallAudit:
    client = at.client()
    return CallAudit.of(client.session, ServerName("files"), "read")


async def test_a_call_that_is_answered_is_admitted() -> None:
    async with rig({}, {}) as at:
        with recording(at) as record:
            record.verdict = admitted()
        (written,) = at.audit.records
        assert (written.verdict, written.reason, written.path) == ("admitted", None, None)
        assert (written.server, written.tool) == ("files", "read")
        assert (written.principal, written.session) == ("alice", at.clients[0].session.key)
        assert written.time == "2023-11-14T22:13:20.000+00:00"
        assert written.ms >= 0


@pytest.mark.parametrize(("took", "ms"), [(0.00123456789, 1.235), (0.0000001, 0.0)])
async def test_time_spent_is_rounded_to_microseconds(took: float, ms: float) -> None:
    async with rig({}, {}) as at:
        record = recording(at)
        record.write("admitted")
        record._took = took  # pyright: ignore[reportPrivateUsage] - no clock is as exact
        assert record.record().ms == ms


async def test_a_call_that_the_child_fails_is_failed() -> None:
    async with rig({}, {}) as at:
        record = recording(at)
        record.verdict = admitted()
        with pytest.raises(ChildError), record:
            raise ChildError("server 'files' went away")
        assert at.audit.records[0].verdict == "failed"
        assert at.audit.records[0].reason == "server 'files' went away"


async def test_a_call_in_flight_writes_its_record_itself() -> None:
    async with rig({}, {}) as at:
        with recording(at) as record:
            record.verdict = admitted()
            record.is_in_flight = True
        assert at.audit.records == []
        record.write("failed", "no")
        assert [(one.verdict, one.reason) for one in at.audit.records] == [("failed", "no")]


async def test_a_call_that_ends_in_an_error_is_failed() -> None:
    async with rig({}, {}) as at:
        record = recording(at)
        record.verdict = admitted()
        with pytest.raises(ValueError, match="ours"), record:
            raise ValueError("ours")
        assert at.audit.records[0].verdict == "failed"


async def test_a_call_that_was_let_through_and_asks_back_is_admitted() -> None:
    async with rig({}, {}) as at:
        record = recording(at)
        record.verdict = admitted()
        with pytest.raises(InputNeededError), record:
            raise InputNeededError({}, NO_STATE, lasts=1.0)
        assert at.audit.records[0].verdict == "admitted"


async def test_a_call_that_is_cancelled_is_cancelled() -> None:
    async with rig({}, {}) as at:
        with anyio.CancelScope() as scope:
            with recording(at) as record:
                record.verdict = admitted()
                scope.cancel()
                await anyio.sleep_forever()
        assert at.audit.records[0].verdict == "cancelled"


async def test_each_call_is_recorded_once_however_it_ends(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/")
    fake = FakeChild(READ)
    async with rig({"files": remote(timeout=0.3)}, {"files": fake}) as at:
        client = at.client(top / "a")
        await client.call("read", {"path": f"{top}/a/x", "secret": "s3cret"})
        await client.call("read", {"path": "/etc/passwd", "secret": "s3cret"})
        fake.answers["tools/call"] = failure(-1, "no")
        with pytest.raises(RpcError):
            await client.call("read")
        fake.answers["tools/call"] = SILENT
        await client.call("read")
        records = at.audit.records
    assert [record.verdict for record in records] == ["admitted", "refused", "failed", "failed"]
    assert (records[1].path, records[1].pointer) == ("/etc/passwd", "/path")
    assert records[1].reason == "outside the allowed roots boundaries"
    assert not any(record.would_refuse for record in records)
    assert "s3cret" not in repr(records)


async def test_what_would_be_refused_is_said_in_report_mode(tmp_path: Path) -> None:
    spec = remote(policy=Policy(mode=Mode.REPORT))
    async with rig({"files": spec}, {"files": FakeChild(READ)}) as at:
        client = at.client(plant(tmp_path, "a/") / "a")
        await client.call("read", {"path": "/etc/passwd"})
        (written,) = at.audit.records
    assert (written.verdict, written.would_refuse) == ("admitted", True)
    assert (written.path, written.reason) == ("/etc/passwd", "outside the allowed roots boundaries")


async def test_a_call_whose_child_does_not_start_is_failed() -> None:
    fake = FakeChild(READ)
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        await client.call("read")
        fake.refuses_to_open = ChildError("no command")
        fake.link.crash()
        await fake.ended()
        await client.call("read")
    assert [record.verdict for record in at.audit.records] == ["admitted", "failed"]
    assert "no command" in str(at.audit.records[1].reason)


async def test_a_call_whose_child_was_never_there_is_failed() -> None:
    fake = FakeChild(READ)
    fake.refuses_to_open = ChildError("no command")
    async with rig({"files": remote()}, {"files": fake}) as at:
        await at.client().call("read")
        (record,) = at.audit.records
    assert (record.server, record.tool, record.verdict) == ("files", "read", "failed")
    assert "no command" in str(record.reason)


async def test_a_call_that_is_cancelled_while_its_child_starts_is_cancelled() -> None:
    fake = FakeChild(READ, answers={"initialize": SILENT})
    async with rig({"files": remote()}, {"files": fake}) as at:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.client().call, "read")
            await (await fake.connected()).request("initialize")
            tasks.cancel_scope.cancel()
        (record,) = at.audit.records
    assert (record.server, record.tool, record.verdict) == ("files", "read", "cancelled")


async def test_what_is_no_call_of_a_server_has_no_record() -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        client = at.client()
        await client.call("get-roots")
        with pytest.raises(RouteError):
            await client.call("none")
        assert at.audit.records == []


async def test_a_public_name_is_not_recorded_beyond_its_beginning() -> None:
    async with rig({}, {}) as at:
        session = at.client().session
        with pytest.raises(ChildError), looking_up(session, None, "x" * 1000):
            raise ChildError("gone")
        (record,) = at.audit.records
        assert (record.server, record.tool, record.reason) == ("", "x" * 256, "gone")
        for owners in ((), None):
            error = StaleError() if owners is None else ChildError("gone")
            with pytest.raises(type(error)), looking_up(session, owners, "x"):
                raise error
        assert len(at.audit.records) == 1
