"""The fast path admits only calls that the full guard admits."""

from pathlib import Path

from hypothesis import given, settings

from hub.guard.decide import Admitted, admit, compile_tool, decide
from hub.guard.policy import Policy, ToolPolicy
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import context, share, tool_call
from tests.oracle.keys import KEYS
from tests.oracle.spellings import Attack, attacks
from tests.oracle.trees import planted
from tests.oracle.verdicts import FastPath

GUARDS = [compile_tool(key.schema, read_only=False, policy=ToolPolicy(Policy())) for key in KEYS]
ODD_PATTERNS = (
    "link?",
    "link[0]",
    "link[",
    "u(/etc/passwd)",
    "a*../private/x",
    "x?/../..",
    "link?x",
)


@given(attacks())
@settings(max_examples=60, deadline=None)
def test_nothing_is_admitted_at_once_that_is_refused_later(attack: Attack) -> None:
    with planted(attack.tree) as world:
        here = context(share(*world.roots), world.cwd, env=world.env)
        values = [spelling.written(world) for spelling in attack.spellings]
        for key, guard in zip(KEYS, GUARDS, strict=True):
            for value in values:
                call = tool_call(key.put(value))
                if admit(call, guard, FastPath(here)) is not None:
                    assert isinstance(decide(call, guard, here), Admitted), (key, value)


def test_patterns_with_several_readings_are_not_admitted_at_once(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/link => ../private/secret.txt")
    here = context(share(top / "project"), top / "project")
    guard = compile_tool({}, read_only=False, policy=ToolPolicy(Policy()))
    for pattern in ODD_PATTERNS:
        call = tool_call({"pattern": pattern})
        if admit(call, guard, FastPath(here)) is not None:
            assert isinstance(decide(call, guard, here), Admitted), pattern
