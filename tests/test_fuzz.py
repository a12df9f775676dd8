"""What `make fuzz` ends with: it runs pytest, which is played here."""

from __future__ import annotations

import subprocess

import pytest

from tests import fuzz

NODES = (
    "tests/guard/test_decide.py::test_one\ntests/paths/test_resolve.py::test_two\n\n2 collected\n"
)
FINE = "  - during generate phase: 0 passing,\n  - 40 passing, 0 failing, 2 invalid\n"


class Runs:
    """Runs of pytest that end as they are to: with an exit code, or cut short by the time."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = list(codes)
        self.nodes: list[str] = []

    def __call__(
        self, *arguments: str, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        if seconds is None:
            return subprocess.CompletedProcess(arguments, 0, NODES, "")
        self.nodes.append(arguments[-1])
        code = self._codes.pop(0)
        if code is None:
            raise subprocess.TimeoutExpired(arguments, seconds)
        return subprocess.CompletedProcess(arguments, code, FINE, "what pytest says")


@pytest.mark.parametrize(
    ("codes", "ends_with", "said"),
    [
        ([None], 1, "nothing tried: no round was over within 5 s; give it more"),
        ([0, None], 0, "40 examples in 1 whole rounds"),
        ([0, 0, 0, None], 0, "120 examples in 3 whole rounds"),
        ([0, 1], 1, "FAILED: tests/paths/test_resolve.py::test_two --hypothesis-seed="),
    ],
)
def test_fuzzing_is_clean_only_where_something_was_tried_and_nothing_found(
    codes: list[int | None],
    ends_with: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fuzz.main(5, Runs(*codes)) == ends_with
    assert said in capsys.readouterr().out.splitlines()[-1]


def test_each_property_has_its_turn_again() -> None:
    runs = Runs(0, 0, 0, None)
    assert fuzz.main(5, runs) == 0
    one, two = NODES.splitlines()[:2]
    assert runs.nodes == [one, two, one, two]
