"""No value that the guard admits reaches a file outside, whoever opens it; see `tests/oracle`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from hub.values import JsonObject
from tests.oracle import ordinary
from tests.oracle.gates import WEAKER, AdmitsAll, OnlyPaths
from tests.oracle.keys import KEYS, ArgumentKey, ProcessTree
from tests.oracle.node import Node, running
from tests.oracle.openers import opened, reached
from tests.oracle.promises import EXEMPTIONS, Exemption
from tests.oracle.search import GateAt, Opener, escapes, in_python, report
from tests.oracle.shells import SHELLS, Shell
from tests.oracle.spellings import Attack, attacks
from tests.oracle.trees import TOP, PlantedLink, Tree, planted
from tests.oracle.verdicts import Guard

pytestmark = pytest.mark.long

WORDS = tuple(key for key in KEYS if "command" in key.arguments)
# With and without JSON around it: the keys of a family differ for the guard, not for Node.
ONE_OF_EACH = tuple({(key.family, key.inside): key for key in KEYS}.values())
LINKED = Tree(
    (
        PlantedLink("project", "leak", "file"),
        PlantedLink("project", "leakdir", "folder"),
        PlantedLink("project", "up", "up"),
    )
)
# Each is some hundred calls: enough of them for a build, and rounds of a minute in `make fuzz`.
TRIES = max(70, settings().max_examples // 5)
# As many as find what a weaker guard lets through.
FINDS = 400
tried = settings(
    max_examples=TRIES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
once = settings(
    max_examples=max(FINDS, TRIES),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def node() -> Generator[Node]:
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node is not installed; it comes with npm: install Node 20 or newer")
    with running(program) as opener:
        yield opener


def shell(name: str) -> Shell:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"there is no {name} here: install it to hold the guard against it")
    return Shell(name, program)


def hold(attack: Attack, opener: Opener, keys: tuple[ArgumentKey, ...] = KEYS) -> None:
    found = list(escapes(attack, Guard, opener, keys))
    if found:
        raise AssertionError(report(found))


@tried
@given(attacks())
def test_no_admitted_value_opens_a_file_outside_in_python(attack: Attack) -> None:
    hold(attack, in_python)


@tried
@given(attack=attacks())
def test_no_admitted_value_opens_a_file_outside_in_node(node: Node, attack: Attack) -> None:
    hold(attack, node, ONE_OF_EACH)


@pytest.mark.parametrize("name", SHELLS)
@tried
@given(attack=attacks())
def test_words_that_are_admitted_are_not_reached_outside_by_a_shell(
    name: str, attack: Attack
) -> None:
    hold(attack, shell(name), WORDS)


@given(ordinary.ORDINARY)
def test_usual_arguments_are_admitted(one: ordinary.Ordinary) -> None:
    with planted(one.tree) as world:
        arguments = one.arguments(world)
        assert Guard(world).admits(one.key, arguments), world.shown(str(arguments))


@pytest.mark.parametrize("arguments", ordinary.NUMBERS)
def test_calls_with_numbers_are_admitted(arguments: JsonObject) -> None:
    with planted(LINKED) as world:
        assert Guard(world).admits(KEYS[0], arguments)


@pytest.mark.parametrize("gate", WEAKER)
def test_a_weaker_guard_is_caught(gate: GateAt) -> None:
    caught = find(attacks(), lambda attack: any(escapes(attack, gate, in_python)), settings=once)
    assert report(list(escapes(caught, gate, in_python)))


def test_a_weaker_guard_is_caught_by_node(node: Node) -> None:
    assert find(attacks(), lambda attack: any(escapes(attack, OnlyPaths, node)), settings=once)


@pytest.mark.parametrize("name", SHELLS)
def test_a_weaker_guard_is_caught_by_a_shell(name: str) -> None:
    opener = shell(name)
    assert find(
        attacks(), lambda attack: any(escapes(attack, AdmitsAll, opener, WORDS)), settings=once
    )


STEPS: dict[str, tuple[ProcessTree, str]] = {
    "opened": ("path", "leak"),
    "normpath": ("path", "nope/../../private/secret.txt"),
    "realpath": ("neutral", "leak/../key.pem"),
    "joined": ("weak", "/../private/secret.txt"),
    "glob": ("glob", "../priv*/key.pem"),
    "decoded": ("neutral", "%2e%2e/private/secret.txt"),
    "normalised": ("weak", "\uff0e\uff0e/private/secret.txt"),
    "stripped": ("path", " leak "),
    "backslashes": ("neutral", "..\\private\\secret.txt"),
    "unquoted": ("weak", '"leak'),
    "quoted": ("path", "'notes.txt' 'leak'"),
    "expanded": ("neutral", "~/.ssh/id_rsa"),
    "by default": ("args", "${X:-leak}"),
    "file URI": ("payload", f"file://{TOP}/private/secret.txt"),
    "scheme": ("weak", "concat:../private/secret.txt"),
    "list": ("neutral", "notes.txt|leak"),
    "lines": ("path", "notes.txt\n../private/secret.txt"),
    "words": ("command", "cat leak"),
    "assigned": ("args", "if=leak"),
    "option": ("args", "-d@leak"),
    "braces": ("glob", "{leak,x}"),
    "JSON": ("neutral", '["leak"]'),
}


@pytest.mark.parametrize(("step", "family", "value"), [(step, *of) for step, of in STEPS.items()])
def test_each_step_reaches_outside_where_nothing_guards(
    step: str, family: ProcessTree, value: str
) -> None:
    with planted(LINKED) as world:
        found = list(opened(value.replace(TOP, world.top), family, world))
        assert any(step in one.chain for one in found)


EXEMPT: tuple[tuple[ProcessTree, str], ...] = (
    ("neutral", "mode=leak"),
    ("neutral", '{"leak": "x"}'),
    ("neutral", "see ../private/secret.txt"),
    ("weak", "it was moved from ../private/secret.txt"),
    ("neutral", '["..\\\\private/secret.txt"]'),
    ("args", "%6ceak"),
    ("glob", "*.ts|../private"),
    ("args", "leak#L1"),
    ("neutral", "[/]"),
    ("glob", "lea?"),
)


@pytest.mark.parametrize(
    ("exemption", "family", "value"),
    [(one, *of) for one, of in zip(EXEMPTIONS, EXEMPT, strict=True)],
)
def test_each_exemption_is_one_that_something_needs(
    node: Node, exemption: Exemption, family: ProcessTree, value: str
) -> None:
    with planted(LINKED) as world:
        found = [*reached(value, family, world), *node.reached(value, family, world)]
        assert any(exemption.holds(family, one, world) for one in found)


@pytest.mark.parametrize("name", SHELLS)
def test_the_words_of_a_shell_are_those_that_a_program_gets(name: str) -> None:
    opener = shell(name)
    with planted(LINKED) as world:
        command = "cat ../priv*/s?cret.txt"
        (found,) = opener([(command, "command")], world)
        assert {one.found for one in found} == {f"{world.top}/private/secret.txt"}
        program = shutil.which(name)
        assert program is not None
        run = subprocess.run(  # noqa: S603 - a command of ours
            [program, "-c", command], cwd=world.cwd, capture_output=True, text=True, check=True
        )
        assert run.stdout == "what is in private/secret.txt"
