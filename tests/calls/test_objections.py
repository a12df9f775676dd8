from __future__ import annotations

import gc
import weakref
from pathlib import Path

from structlog.testing import capture_logs

from hub.calls.audit_trail import note_refusal
from hub.calls.permission import Circumstances
from hub.guard.containment import OUTSIDE
from hub.guard.decide import Refused
from hub.values import Call, JsonObject
from tests.kit.fakes import READ, FakeChild
from tests.kit.rigs import remote, rig
from tests.kit.trees import plant


class Arguments(JsonObject):
    """Arguments that a test can see go."""


async def test_a_line_that_waits_to_be_written_holds_no_arguments(tmp_path: Path) -> None:
    top, spec = plant(tmp_path, "a/f"), remote("files")
    async with rig({"files": spec}, {"files": FakeChild(READ)}) as at:
        session = at.client(top / "a").session
        refused = Refused("/path", "/etc/passwd", OUTSIDE, (), leads_to="/etc/passwd")
        arguments = Arguments(path="/etc/passwd")
        held = weakref.ref(arguments)
        call = Call("tools/call", "read", arguments, {"arguments": arguments})
        with capture_logs() as logged:
            effective = session.known_effective()
            around = Circumstances.of(session, spec, effective, effective)
            note_refusal(session, call, around, refused, None)
        del arguments, call
        gc.collect()
        assert held() is None
        assert str(logged[0]["allowed_by"]) == 'roots.fallback: add "/etc"'
