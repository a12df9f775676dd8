from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from hub.config.models import Confine, RemoteServer, Server, StdioServer
from hub.guard.keys.vocabulary import Kind
from hub.launch.plan import LaunchTemplate
from hub.launch.templates import parse_template


def read(**keys: Any) -> Any:
    return TypeAdapter[Any](Server).validate_python(keys)


def test_a_command_is_launched_and_a_url_connected_to() -> None:
    assert isinstance(read(command="x"), StdioServer)
    assert isinstance(read(url="https://x/"), RemoteServer)
    assert read(url="https://x/", transport="sse").transport == "sse"


def test_the_port_of_a_url_is_one() -> None:
    assert read(url="https://x:65535/").url == "https://x:65535/"
    with pytest.raises(ValidationError, match="has a port above 65535"):
        read(url="https://x:65536/")
    with pytest.raises(ValidationError, match="is no URL"):
        read(url="https://x:-1/")


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"command": "x", "url": "https://x/"},
        {"url": "https://x/", "args": []},
        {"url": "https://x/", "roots": {"args": "append"}},
        {"url": "https://x/", "confine": "off"},
        {"command": "x", "confine": {"mode": "auto", "abi": 6}},
        {"command": "x", "confine": {"mode": "require", "abi": 8}},
        {"command": "x", "confine": {"mode": "auto", "allow": ["mounts"]}},
        {"command": "x", "transport": "http"},
        {"command": "x", "guard": {"modes": "off"}},
        {"command": "x", "guard": True},
        {"command": "x", "tools": {"overrides": {"t": {"arguments": {"/a": "paths"}}}}},
    ],
)
def test_keys_that_do_not_belong_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(**keys)


def test_neither_a_command_nor_a_url_has_its_own_sentence() -> None:
    for wrong in (dict[str, Any](), None, "x"):
        with pytest.raises(ValidationError, match="needs exactly one of command and url"):
            TypeAdapter[Any](Server).validate_python(wrong)


def test_a_mode_alone_stands_for_a_mapping() -> None:
    server = read(command="x", guard=False, confine="auto")
    assert server.guard.mode == "off"
    assert server.confine == Confine(mode="auto")
    assert read(command="x").guard is None


def test_confine_takes_allow_and_abi() -> None:
    asked = {"mode": "require", "abi": 6, "allow": ["userns", "any_owner"]}
    confine = read(command="x", confine=asked).confine
    assert (confine.abi, confine.allow) == (6, ("userns", "any_owner"))
    assert Confine().abi == 1


def test_tools_are_overridden_by_name_and_pointer() -> None:
    tools = read(
        command="x",
        tools={"overrides": {"t": {"arguments": {"/pattern": "glob"}, "guard": False}}},
    ).tools
    assert tools.allow == ("*",)
    assert tools.overrides["t"].arguments == {"/pattern": Kind.GLOB}
    assert tools.overrides["t"].guard == "off"


def test_a_command_becomes_a_launch_template() -> None:
    server = read(
        command="npx", args=["${roots}"], env={"A": "b"}, cwd="${root}", roots={"args": "none"}
    )
    assert server.template("files") == LaunchTemplate(
        "files",
        parse_template("npx"),
        (parse_template("${roots}", spread=True),),
        (("A", parse_template("b")),),
        parse_template("${root}"),
        "none",
    )
    assert read(command="x").template("x").cwd is None


def test_secrets_are_not_in_a_repr() -> None:
    remote = read(url="https://x/?key=s3cret", headers={"Authorization": "s3cret"})
    assert "s3cret" not in repr(remote)
    assert "s3cret" not in repr(read(command="x", env={"A": "s3cret"}))


def test_a_server_that_is_built_already_is_taken() -> None:
    for server in (read(command="x"), read(url="https://x/")):
        assert TypeAdapter[Any](Server).validate_python(server) == server
