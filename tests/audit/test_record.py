import json

import msgspec

from hub.audit.log_file import AuditRecord, moment
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, compile_tool, decide, refusal_of
from hub.guard.policy import Mode, Policy, ToolPolicy
from hub.paths.resolve import Flavour
from hub.roots.roots import EMPTY
from hub.values import Call, JsonObject, SessionKey
from tests.kit.fakes import FakeLinks

REFUSAL = AuditRecord(
    time="2026-01-02T03:04:05.678+00:00",
    session=SessionKey("abc"),
    principal="alice",
    server="files",
    tool="read",
    verdict="refused",
    reason="outside the allowed roots boundaries",
    pointer="/path",
    path="/etc/passwd",
    would_refuse=False,
    ms=1.235,
)


def verdict(mode: Mode, path: str) -> Admitted | Refused:
    arguments: JsonObject = {"path": path}
    guard = compile_tool({}, read_only=True, policy=ToolPolicy(Policy(mode=mode)))
    around = CallContext(
        roots=EMPTY, cwd=None, env={}, links=FakeLinks("/etc/passwd"), flavour=Flavour.POSIX
    )
    return decide(Call("tools/call", "read", arguments, {}), guard, around)


def test_a_records_line_has_fixed_names_in_a_fixed_order() -> None:
    written = json.loads(msgspec.json.encode(REFUSAL))
    names = (
        "time session principal server tool verdict reason pointer path would_refuse ms consent"
        " profile"
    )
    assert list(written) == names.split()
    assert all(written[name] == getattr(REFUSAL, name) for name in written)


def test_the_time_is_written_in_utc_to_the_millisecond() -> None:
    assert moment(1767323045.6789) == "2026-01-02T03:04:05.678+00:00"
    assert moment(0.0) == "1970-01-01T00:00:00.000+00:00"


def test_a_refused_call_is_objected_to() -> None:
    refused = verdict(Mode.ENFORCE, "/etc/passwd")
    assert isinstance(refused, Refused)
    assert refusal_of(refused) is refused


def test_a_call_admitted_in_report_mode_is_objected_to_as_well() -> None:
    admitted = verdict(Mode.REPORT, "/etc/passwd")
    assert isinstance(admitted, Admitted)
    objection = refusal_of(admitted)
    assert objection is not None
    assert objection.path == "/etc/passwd"


def test_nothing_is_said_against_other_calls() -> None:
    assert refusal_of(verdict(Mode.OFF, "/etc/passwd")) is None
    assert refusal_of(None) is None
