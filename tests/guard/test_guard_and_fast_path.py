"""The fast path admits only calls that the full guard admits."""

from pathlib import Path

from hypothesis import given, settings

from hub.guard.decide import Admitted, compile_tool, decide
from hub.guard.policy import Policy, ToolPolicy
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import context, share, tool_call
from tests.oracle.keys import KEYS
from tests.oracle.spellings import Attack, attacks
from tests.oracle.trees import planted
from tests.oracle.verdicts import at_once_if_plain

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
@settings(max_examples=min(60, settings().max_examples))
def test_what_is_decided_at_once_is_decided_later_too(attack: Attack) -> None:
    with planted(attack.tree) as world:
        here = context(share(*world.roots), world.cwd, env=world.env)
        values = [spelling.written(world) for spelling in attack.spellings]
        for key, guard in zip(KEYS, GUARDS, strict=True):
            for value in values:
                call = tool_call(key.put(value))
                soon = at_once_if_plain(call, guard, here)
                if soon is None:
                    continue
                later = decide(call, guard, here)
                if isinstance(soon, Admitted):
                    assert isinstance(later, Admitted), (key, value)
                else:
                    assert soon == later, (key, value)


def test_patterns_with_several_readings_are_not_admitted_at_once(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/link => ../private/secret.txt")
    here = context(share(top / "project"), top / "project")
    guard = compile_tool({}, read_only=False, policy=ToolPolicy(Policy()))
    for pattern in ODD_PATTERNS:
        assert at_once_if_plain(tool_call({"pattern": pattern}), guard, here) is None, pattern
    later = [decide(tool_call({"pattern": pattern}), guard, here) for pattern in ODD_PATTERNS]
    assert [isinstance(verdict, Admitted) for verdict in later] == [True, *[False] * 5, True]
    plain = tool_call({"pattern": "src/*"})
    assert isinstance(at_once_if_plain(plain, guard, here), Admitted)
