from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hub.guard.decide import Refused
from hub.guard.policy import Mode, Policy
from hub.jsonrpc.rated_log import RatedLog
from hub.sessions.client import RECENT, ConsentGrants, Refusals
from hub.values import Call, ServerName
from tests.kit.rigs import remote, roots_at
from tests.kit.trees import plant

CALL = Call("tools/call", "read", {}, {})


def refused(path: str) -> Refused:
    return Refused("/path", path, "no", ())


def test_only_the_newest_refusals_are_remembered() -> None:
    refusals = Refusals(RatedLog({}))
    for number in range(RECENT + 5):
        refusals.add(remote("files"), CALL, refused(f"/etc/{number}"))
    assert [entry["path"] for entry in refusals.recent] == [
        f"/etc/{number}" for number in range(5, RECENT + 5)
    ]


def test_what_is_remembered_and_logged_of_a_very_long_path_is_its_beginning() -> None:
    refusals = Refusals(RatedLog({}))
    with capture_logs() as logs:
        refusals.add(remote("files"), CALL, refused("/etc/" + "x" * 1_000_000))
    kept = str(refusals.recent[0]["path"])
    assert kept.startswith("/etc/xxx")
    assert kept.endswith("(995,909 characters left out)")
    assert logs[0]["path"] == kept, "a longer line would be left out as a whole"


def test_a_refusal_with_an_endless_path_is_logged_and_takes_little_memory() -> None:
    refusals = Refusals(RatedLog({}))
    with capture_logs() as logs:
        refusals.add(remote("files"), CALL, refused("../" + "\n" * 1_000_000))
    assert [line["event"] for line in logs] == ["refused"]
    assert len(str(refusals.recent)) < 20_000


@pytest.mark.parametrize(
    ("mode", "said"), [(Mode.ENFORCE, "refused"), (Mode.REPORT, "would be refused")]
)
def test_the_operator_reads_what_was_refused_or_would_be(mode: Mode, said: str) -> None:
    refusals = Refusals(RatedLog({}))
    with capture_logs() as logs:
        refusals.add(remote("files", policy=Policy(mode=mode)), CALL, refused("/etc/x"), "refused")
    details = {"server": "files", "name": "read", "argument": "/path", "path": "/etc/x"}
    told = {**details, "reason": "no", "consent": "refused"}
    assert logs == [{"event": said, "log_level": "warning", **told}]
    assert refusals.recent == [{**told, "mode": mode.value}]
    refusals.add(remote("files"), CALL, refused("/etc/x"))
    assert "consent" not in refusals.recent[1], "nobody was asked"


FILES, OTHER = ServerName("files"), ServerName("other")


def test_a_grant_is_for_one_server_and_for_what_was_asked(tmp_path: Path) -> None:
    (a, b) = roots_at(*(plant(tmp_path, "a/", "b/") / name for name in "ab")).roots
    grants = ConsentGrants()
    grants.add(FILES, a, writes=False)
    grants.add(FILES, b, writes=True)
    assert grants.of(FILES, writes=False) == (a, b)
    assert grants.of(FILES, writes=True) == (b,)
    assert grants.of(OTHER, writes=False) == ()


def test_the_same_place_is_kept_once(tmp_path: Path) -> None:
    (a,) = roots_at(tmp_path).roots
    grants = ConsentGrants()
    grants.add(FILES, a, writes=False)
    grants.add(FILES, a, writes=False)
    assert grants.of(FILES, writes=False) == (a,)
