import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.launch.templates import TemplateError, literal, parse_template

ROOTS = ("/home/u/a b", "/srv/${HOME}")
ENVIRONMENT = {"HOME": "/home/u", "EMPTY": "", "ODD": "${roots}"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("", ""),
        ("plain $HOME $$ } {", "plain $HOME $$ } {"),
        ("--dir=${root}", "--dir=/home/u/a b"),
        ("${roots:,}", "/home/u/a b,/srv/${HOME}"),
        ("${roots::}", "/home/u/a b:/srv/${HOME}"),
        ("${HOME}/x", "/home/u/x"),
        ("${NOPE:-a:-b}", "a:-b"),
        ("${NOPE:-}", ""),
        ("${EMPTY:-set}", "set"),
        ("${EMPTY}", ""),
        ("${HOME:-other}", "/home/u"),
        ("${env:HOME}/x", "/home/u/x"),
        ("${env:NOPE:-a}", "a"),
        ("$${env:HOME}", "${env:HOME}"),
        ("$${file:/x}", "${file:/x}"),
        ("${ODD}", "${roots}"),
        ("$${HOME}", "${HOME}"),
        ("$$${HOME}", "$${HOME}"),
    ],
)
def test_placeholders_are_replaced_once(text: str, filled: str) -> None:
    assert parse_template(text).fill(ENVIRONMENT.get, ROOTS) == filled


@pytest.mark.parametrize(
    "text",
    [
        "${",
        "${HOME",
        "${A:-${B}}",
        "${}",
        "${1}",
        "${root:,}",
        "${roots:}",
        "${roots:-x}",
        "${root:-x}",
        "a\0b",
        "--dirs=${roots}",
        "${input:}",
        "${env:}",
        "${env:a b}",
        "${env:root:,}",
    ],
)
def test_an_unknown_placeholder_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError):
        parse_template(text, spread=True)


def test_roots_alone_spread_only_where_they_may() -> None:
    assert parse_template("${roots}", spread=True).elements(ENVIRONMENT.get, ROOTS) == ROOTS
    assert parse_template("${roots}", spread=True).elements(ENVIRONMENT.get, ()) == ()
    with pytest.raises(TemplateError, match="argument of its own"):
        parse_template("${roots}")
    with pytest.raises(TemplateError, match="several arguments"):
        parse_template("${roots}", spread=True).fill(ENVIRONMENT.get, ROOTS)


def test_one_element_stays_one_element() -> None:
    assert parse_template("${roots:,}").elements(ENVIRONMENT.get, ()) == ("",)


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(TemplateError, match="the variable rots is not set") as raised:
        parse_template("${rots}").fill(ENVIRONMENT.get, ROOTS)
    assert raised.value.fix == "Write ${roots}, or set the variable."
    assert raised.value.variable is None  # a mistake in the file
    with pytest.raises(TemplateError) as raised:
        parse_template("${workspaceFolder}").fill(ENVIRONMENT.get, ROOTS)
    assert raised.value.fix == "Write ${root}, or set the variable."
    with pytest.raises(TemplateError, match="the variable TOKEN is not set") as raised:
        parse_template("${TOKEN}").fill(ENVIRONMENT.get, ROOTS)
    assert raised.value.fix == "Set it for the hub, or give it a default: ${TOKEN:-default}."
    assert raised.value.variable == "TOKEN"


def test_an_editors_input_is_a_variable() -> None:
    text = parse_template("Bearer ${input:github-token}")
    assert text.fill({"HUB_INPUT_GITHUB_TOKEN": "x"}.get, ()) == "Bearer x"
    assert parse_template("${input:a:-b}").fill(ENVIRONMENT.get, ()) == "b"
    with pytest.raises(TemplateError, match="HUB_INPUT_GITHUB_TOKEN has no value") as raised:
        text.fill(ENVIRONMENT.get, ())
    assert "`roots-hub check` asks" in raised.value.fix


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("${env.HOME}", "Write ${HOME}."),
        ("${File:x}", "Write ${file:~/.config/token}."),
        ("${ HOME }", "Write ${HOME}, without spaces."),
        ("${root:,}", "Write ${roots}, ${root} or ${roots:,}."),
        ("${1}", "Write ${NAME}; $${ is a literal ${."),
    ],
)
def test_a_wrong_placeholder_is_told_how_to_write_it(text: str, fix: str) -> None:
    with pytest.raises(TemplateError) as raised:
        parse_template(text)
    assert raised.value.fix == fix


def test_without_roots_the_first_one_is_the_current_directory() -> None:
    assert parse_template("${root}/x").fill(ENVIRONMENT.get, ()) == "./x"


def test_templates_know_whether_they_mention_roots() -> None:
    mentions = [parse_template(t, spread=True) for t in ("${roots}", "a${root}", "${roots:;}")]
    assert all(template.mentions_roots for template in mentions)
    assert [template.mentions_first_root for template in mentions] == [False, True, False]
    assert not parse_template("$${root} ${HOME}").mentions_roots


@given(st.text(alphabet="${}roHOME:-, x\n'\""))
def test_an_escaped_text_is_itself(text: str) -> None:
    assert parse_template(literal(text)).fill(ENVIRONMENT.get, ROOTS) == text


@given(st.text(alphabet="${}rots:HOME \n'\"").filter(bool))
def test_the_text_of_a_root_is_never_expanded(root: str) -> None:
    assert parse_template("${root}${roots:|}").fill(ENVIRONMENT.get, (root,)) == root + root
