"""Everyday mistakes in configs, and what is said of each: where, and what to write instead."""

import json
from pathlib import Path
from typing import Any

import pytest

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.errors import ConfigError, Fault

ROWS = (Path(__file__).parent / "data" / "mistakes.jsonl").read_text(encoding="utf-8")
MISTAKES: list[dict[str, Any]] = [json.loads(row) for row in ROWS.splitlines()]
PYDANTIC = ("Input should", "Value error", "validation", "String should", "literal_", "Field ")
"""Words that mean nothing to an operator."""


def faults_of(tmp_path: Path, form: str, text: str) -> list[Fault]:
    source = f"f.{form}"
    (tmp_path / source).write_text(text, encoding="utf-8")
    context = LoadContext(tmp_path, "/home/u", {"HOME": "/home/u"})
    try:
        left_out = load_config(source, context).config.left_out
    except ConfigError as error:
        return list(error.faults)
    return [fault for one in left_out for fault in one.faults]


def stable(fix: str) -> str:
    """Return a remedy without the list of keys, which grows."""
    return fix.partition(" Keys here are:")[0].partition(" and its keys below it:")[0]


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row["said"][0]["where"][:60])
def test_a_mistake_is_told_with_its_place_and_its_remedy(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    faults = faults_of(tmp_path, row["form"], row["text"])
    told = [(fault.said.removeprefix(f"f.{row['form']}: "), stable(fault.fix)) for fault in faults]
    assert told == [(said["where"], stable(said["fix"])) for said in row["said"]]
    shown = "\n".join(map(str, faults))
    assert [word for word in PYDANTIC if word in shown] == []
    for fault in faults:
        place, *rest = fault.excerpt.splitlines() or [""]
        assert not place or place.strip().startswith(f"--> f.{row['form']}:")
        assert not rest or "^" in rest[-1]
