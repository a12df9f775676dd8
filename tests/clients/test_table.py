"""The table says of each feature whether it works, and if not, why; docs/clients.md has it."""

from pathlib import Path

from tests.clients.features import FEATURES
from tests.clients.known import KNOWN, Known, Packages
from tests.clients.table import table
from tests.clients.trials import ClientAndTransport, Outcome, pairs_of
from tests.conftest import PROJECT

PACKAGES = Packages(Path("/nowhere"), {})


def client(**lacks: str) -> Known:
    return Known("one", "Client One", "legacy", lambda _: "1.2", lambda _: [], lacks=lacks)


def shown(known: Known, **other: Outcome) -> list[str]:
    fine: dict[str, Outcome] = dict.fromkeys(FEATURES)
    return table({ClientAndTransport(known, "http"): fine | other}, PACKAGES).splitlines()


def test_a_row_says_which_client_was_tried_over_what() -> None:
    head, _, row, *_ = shown(client())
    assert head.startswith("| client | era | transport | in/out | roots change |")
    assert row.startswith("| Client One (1.2) | legacy | http | ok | ok |")


def test_each_reason_is_noted_once() -> None:
    known = client(progress="it counts nothing", sampling="no model")
    *_, row, _, first, second, third = shown(known, cancel="it hangs", prompts="it hangs")
    assert row.count("| not in this client (1) |") == 1
    assert row.count("| not in this client (2) |") == 1
    assert [first, second] == ["1. It counts nothing.", "2. No model."]
    assert third == "3. It hangs."
    assert row.count("| **FAIL** (3) |") == 2


def test_the_page_has_a_row_for_each_client_and_a_column_for_each_feature() -> None:
    lines = (PROJECT / "docs/clients.md").read_text(encoding="utf-8").splitlines()
    begin = lines.index("<!-- begin of the table -->")
    head, _, *rows = [line for line in lines[begin:] if line.startswith("| ")]
    assert head == f"| client | era | transport | {' | '.join(FEATURES)} |"
    names = [row.split(" (")[0].removeprefix("| ") for row in rows]
    assert names == [pair.known.name for pair in pairs_of(KNOWN)]
