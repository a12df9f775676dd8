from __future__ import annotations

import pytest

from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.launch.templates import (
    CommandSecret,
    FileSecret,
    KeyringSecret,
    SecretReference,
    TemplateError,
    parse_template,
)
from hub.roots.roots import EMPTY

ENVIRONMENT = {"KEY": "k3y"}


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("${file:/run/secrets/token}", FileSecret("/run/secrets/token")),
        ("${file:~/a b:c}", FileSecret("~/a b:c")),
        ("${cmd:pass show github/token}", CommandSecret("pass show github/token")),
        ("${keyring:github/me}", KeyringSecret("github", "me")),
        ("${keyring:https://h.example/mcp/me}", KeyringSecret("https://h.example/mcp", "me")),
    ],
)
def test_a_reference_is_parsed_and_written_again(text: str, reference: SecretReference) -> None:
    assert parse_template(text).parts == (reference,)
    assert reference.written == text


def test_a_command_is_split_as_a_shell_would_and_nothing_else_of_a_shell_counts() -> None:
    secret = CommandSecret("op read 'op://my vault/it' $HOME | x")
    assert secret.argv == ("op", "read", "op://my vault/it", "$HOME", "|", "x")


@pytest.mark.parametrize(
    ("text", "why", "fix"),
    [
        ("${file:}", "names nothing", "${file:~/.config/token}"),
        ("${cmd: }", "names nothing", "${cmd:pass show github/token}"),
        ("${cmd:''}", "names no program", "${cmd:pass show github/token}"),
        ("${cmd:pass 'x}", "a quote is not closed", "Close it"),
        ("${keyring:service}", "a service and a user", "${keyring:SERVICE/USER}"),
        ("${keyring:service/}", "a service and a user", "${keyring:SERVICE/USER}"),
    ],
)
def test_a_reference_that_names_nothing_is_told_how_to_write_it(
    text: str, why: str, fix: str
) -> None:
    with pytest.raises(TemplateError, match=why) as raised:
        parse_template(text)
    assert fix in raised.value.fix


def test_a_text_with_a_secret_is_filled_but_for_the_secret() -> None:
    template = parse_template("a ${KEY} ${file:/x} ${root}")
    text = template.filled(ENVIRONMENT.get, ("/r",))
    assert text.parts == ("a ", "k3y", " ", FileSecret("/x"), " ", "/r")
    assert text.plain is None
    assert text.references == template.references == (FileSecret("/x"),)
    with pytest.raises(TemplateError, match="no secret can be here"):
        template.fill(ENVIRONMENT.get, ("/r",))


def test_only_references_are_shown() -> None:
    text = parse_template("Bearer ${KEY}${file:/x}").filled(ENVIRONMENT.get, ())
    assert text.shown == "……${file:/x}"
    assert "k3y" not in repr(text)
    assert parse_template("x").filled(ENVIRONMENT.get, ()).plain == "x"


def planned(**env: str) -> LaunchPlan:
    texts = tuple((key, parse_template(text)) for key, text in env.items())
    return plan(LaunchTemplate("s", parse_template("serve"), (), texts), EMPTY, ENVIRONMENT)


def test_a_plan_has_references_and_no_values() -> None:
    made = planned(CREDENTIAL="Bearer ${file:/x}", PLAIN="${KEY}", MCP_ROOTS_JSON="${cmd:x}")
    assert [name for name, _ in made.secrets] == ["CREDENTIAL", "MCP_ROOTS_JSON"]
    assert dict(made.env)["PLAIN"] == "k3y"
    assert {"CREDENTIAL", "MCP_ROOTS_JSON"}.isdisjoint(dict(made.env))


def test_another_reference_is_another_plan() -> None:
    one, two = planned(CREDENTIAL="${file:/x}"), planned(CREDENTIAL="${file:/y}")
    assert one != two
    assert one == planned(CREDENTIAL="${file:/x}")
    assert hash(one) != hash(two)
    # A text that looks like a reference is none.
    assert one != planned(CREDENTIAL="$${file:/x}")
    assert one.secrets[0][1].digested == [("file", "/x")]


def test_what_the_hub_knows_of_a_childs_environment_has_no_inherited_value_for_a_secret() -> None:
    made = planned(CREDENTIAL="${file:/x}", PLAIN="p")
    known = made.environment({"CREDENTIAL": "the hub's own", "PATH": "/bin", "PLAIN": "i"})
    assert (known["PATH"], known["PLAIN"]) == ("/bin", "p")
    assert "CREDENTIAL" not in known
