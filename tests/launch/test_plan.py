import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ConfigError
from hub.launch.plan import (
    ArgsMode,
    LaunchTemplate,
    argv_directories,
    known_filesystem_server,
    mentions_roots,
    plan,
)
from hub.launch.templates import literal, parse_template
from hub.roots.roots import EMPTY, Root, RootSet

OFFICIAL = ("npx", "-y", "@modelcontextprotocol/server-filesystem")
ENVIRONMENT = {"HOME": "/home/user", "TOKEN": "s3cret"}


def root(path: str, name: str = "", *, is_file: bool = False) -> Root:
    return Root(f"file://{path}", path, name, is_file, tuple(path.split("/")), 1, hash(path))


PROJECT = root("/home/user/project", "Project")
DOCUMENTS = root("/home/user/documents", "Documents")
TWO = RootSet((PROJECT, DOCUMENTS))


def template(
    *argv: str,
    name: str = "svc",
    env: dict[str, str] | None = None,
    cwd: str | None = None,
    mode: ArgsMode = "auto",
) -> LaunchTemplate:
    return LaunchTemplate(
        name,
        parse_template(argv[0]),
        tuple(parse_template(text, spread=True) for text in argv[1:]),
        tuple((key, parse_template(text)) for key, text in (env or {}).items()),
        None if cwd is None else parse_template(cwd),
        mode,
    )


def planned(*argv: str, roots: RootSet = TWO, **rest: Any) -> tuple[str, ...]:
    return plan(template(*argv, **rest), roots, ENVIRONMENT).argv


def test_h11_a_filesystem_server_gets_the_roots_after_its_arguments() -> None:
    paths = ("/home/user/project", "/home/user/documents")
    assert planned("fs", "--read-only", name="filesystem") == ("fs", "--read-only", *paths)
    assert planned("fs", name="filesystem") == ("fs", *paths)
    assert planned(*OFFICIAL) == (*OFFICIAL, *paths)


@pytest.mark.parametrize("name", ["profile-svc", "git", "filesystems"])
def test_h11_other_servers_are_left_alone(name: str) -> None:
    assert planned("node", "/opt/x/index.js", "--root", "/srv", name=name)[1:] == (
        "/opt/x/index.js",
        "--root",
        "/srv",
    )


def test_h11_no_argument_is_deleted_and_the_template_is_not_modified() -> None:
    given_ = template("node", "/opt/filesystem/index.js", "--log", "/var/log", name="filesystem")
    argv = plan(given_, TWO, ENVIRONMENT).argv
    assert argv[:4] == ("node", "/opt/filesystem/index.js", "--log", "/var/log")
    assert argv == plan(given_, TWO, ENVIRONMENT).argv


def test_a_server_in_a_container_sees_other_paths_and_is_left_alone() -> None:
    argv = ("docker", "run", "-i", "mcp/filesystem", "/projects")
    assert planned(*argv, name="filesystem") == argv
    assert not known_filesystem_server(template(*argv, name="filesystem"))


def test_roots_that_are_there_already_are_not_given_twice() -> None:
    argv = planned(*OFFICIAL, "/home/user/project/")
    assert argv == (*OFFICIAL, "/home/user/project/", "/home/user/documents")
    assert planned(*argv) == argv


def test_a_project_named_like_a_server_does_not_make_its_reader_one() -> None:
    argv = ("uvx", "mcp-server-git", "--repository", "/home/user/rust-mcp-filesystem")
    assert planned(*argv) == argv


def test_placeholders_expand_in_place_and_auto_adds_nothing_to_them() -> None:
    assert planned(*OFFICIAL, "${roots}", "--flag") == (
        *OFFICIAL,
        "/home/user/project",
        "/home/user/documents",
        "--flag",
    )
    assert planned(*OFFICIAL, "${root}") == (*OFFICIAL, "/home/user/project")
    assert planned(*OFFICIAL, "x", env={"DIRS": "${roots:,}"}) == (*OFFICIAL, "x")
    assert planned("svc", "a", "${roots}", "b", roots=EMPTY) == ("svc", "a", "b")


def test_append_adds_roots_to_any_server_and_none_to_no_server() -> None:
    assert planned("svc", "a", mode="append")[1:] == ("a", *TWO.paths)
    assert planned("svc", "${roots}", mode="append")[1:] == TWO.paths
    assert planned(*OFFICIAL, mode="none") == OFFICIAL


def test_a_single_file_is_not_added_as_a_directory() -> None:
    notes = root("/home/user/notes.txt", is_file=True)
    assert planned(*OFFICIAL, roots=RootSet((notes, PROJECT))) == (*OFFICIAL, PROJECT.path)
    assert planned("svc", "${roots}", roots=RootSet((notes,))) == ("svc", notes.path)


def test_replace_puts_the_roots_in_the_place_of_directories() -> None:
    argv = ("node", "/srv/app", "/srv/data/", "--log", "~/logs", "x")
    made = template(*argv, mode="replace")
    dirs = argv_directories(
        made, ENVIRONMENT, {"/srv/app", "/srv/data/", "/home/user/logs"}.__contains__
    )
    assert dirs == ("/srv/data/", "/home/user/logs")
    assert plan(made, TWO, ENVIRONMENT, directories=dirs).argv == (
        "node",
        "/srv/app",
        "--log",
        "x",
        *TWO.paths,
    )


CODE = ("/home/user",)
BELOW = f"{PROJECT.path}/sub"


@pytest.mark.parametrize(
    ("own", "mode", "given"),
    [
        (("/home/user",), "auto", TWO.paths),
        (("/home/user",), "append", TWO.paths),
        (("/home/user", "--flag", "x"), "auto", ("--flag", "x", *TWO.paths)),
        (("/home/user", "${roots}"), "auto", TWO.paths),
        (("${root}", "/home/user"), "auto", (PROJECT.path,)),
        (("/home/user",), "none", ("/home/user",)),
    ],
)
def test_a_filesystem_servers_directories_give_way_to_the_roots(
    own: tuple[str, ...], mode: ArgsMode, given: tuple[str, ...]
) -> None:
    """It reads a relative path from the first directory that it has, the guard from the roots."""
    made = template(*OFFICIAL, *own, mode=mode)
    assert plan(made, TWO, ENVIRONMENT, directories=CODE).argv == (*OFFICIAL, *given)


def test_directories_stay_where_there_is_no_root_to_take_their_place() -> None:
    made = template(*OFFICIAL, "/home/user")
    assert plan(made, EMPTY, ENVIRONMENT, directories=CODE).argv == (*OFFICIAL, "/home/user")


@pytest.mark.parametrize("roots", [TWO, EMPTY], ids=["roots", "no roots"])
def test_a_filesystem_server_runs_in_the_directory_that_it_keeps(roots: RootSet) -> None:
    """It reads relative paths from there, and the guard judges them from where it runs."""
    made = template(*OFFICIAL, "/home/user", mode="none")
    assert plan(made, roots, ENVIRONMENT, directories=CODE).cwd == "/home/user"
    placed = template(*OFFICIAL, "/home/user", env={"DIRS": "${roots:,}"})
    assert plan(placed, TWO, ENVIRONMENT, directories=CODE).cwd == "/home/user"
    elsewhere = template(*OFFICIAL, "/home/user", mode="none", cwd="/srv")
    assert plan(elsewhere, roots, ENVIRONMENT, directories=CODE).cwd == "/srv"
    beside_it = template(*OFFICIAL, "sub", mode="none")
    assert plan(beside_it, TWO, ENVIRONMENT, directories=("sub",)).cwd == PROJECT.path


@pytest.mark.parametrize(
    ("argv", "rest", "starts", "near"),
    [
        # Directories that stay, wherever the server runs, and those that may be there later.
        ((*OFFICIAL, "/srv/a", "~/b"), {"mode": "none"}, ("/srv/a", "/home/user/b"), ()),
        ((*OFFICIAL, "/srv/a", "sub"), {"mode": "none", "cwd": "/"}, ("/srv/a", "/sub"), ()),
        ((*OFFICIAL, "sub"), {"mode": "none", "cwd": "${root}"}, (BELOW,), ()),
        ((*OFFICIAL, "--dir=/srv/a", "-x"), {"mode": "none"}, ("/srv/a",), ()),
        ((*OFFICIAL, "/srv/x/../a"), {"mode": "none"}, ("/srv/x/../a", "/srv/a"), ()),
        ((*OFFICIAL, "/srv/later"), {}, ("/srv/later", *TWO.paths), ()),
        # Those that give way to the roots.
        ((*OFFICIAL, "/home/user"), {}, TWO.paths, ()),
        (("uv", "--directory", "/srv/x", "run", *OFFICIAL[2:], "${root}/sub"), {}, (BELOW,), ()),
        # Any other server.
        (("node", "app.js", "/srv/a", "--in=~/b", "rel"), {}, (), ("/srv/a", "/home/user/b")),
        (("svc", "${roots}", "${root}/sub"), {}, (), (BELOW,)),
        (("docker", "run", "x", "/srv/a"), {}, (), ()),
    ],
)
def test_which_folders_a_server_may_read_relative_paths_from(
    argv: Sequence[str], rest: dict[str, Any], starts: tuple[str, ...], near: tuple[str, ...]
) -> None:
    made = plan(template(*argv, **rest), TWO, ENVIRONMENT, directories=CODE)
    near = tuple(one for one in near if one != made.cwd)
    assert (made.starts, tuple(one for one in made.near if one not in TWO.paths)) == (starts, near)


def test_a_server_in_the_private_directory_has_no_folders_there() -> None:
    made = plan(template(*OFFICIAL, "sub", "${root}", mode="none"), EMPTY, ENVIRONMENT)
    assert (made.cwd, made.starts) == (None, ())


def test_folders_of_single_files_take_the_place_of_directories() -> None:
    notes = RootSet((root("/home/user/a/notes.txt", is_file=True),))
    made = template(*OFFICIAL, "/home/user")
    assert plan(made, notes, ENVIRONMENT, directories=CODE).argv == (*OFFICIAL, "/home/user/a")


def test_a_root_that_is_a_servers_directory_stays() -> None:
    user = RootSet((root("/home/user"),))
    made = template(*OFFICIAL, "/home/user", "${roots}")
    assert plan(made, user, ENVIRONMENT, directories=CODE).argv == (*OFFICIAL, "/home/user")


@pytest.mark.parametrize(
    ("argv", "rest", "directories"),
    [
        (
            (*OFFICIAL, "/srv/a", "~/b", "--x=/srv/a", "/nowhere", ""),
            {},
            ("/srv/a", "/home/user/b"),
        ),
        ((*OFFICIAL, "${HOME}/b", "${roots}", "~"), {}, ("/home/user/b", "/home/user")),
        ((*OFFICIAL, "rel"), {}, ("rel",)),
        ((*OFFICIAL, "rel", "/srv/a"), {"cwd": "/srv"}, ("/srv/rel", "/srv/a")),
        ((*OFFICIAL, "rel"), {"cwd": "${root}"}, ("rel",)),
        (("node", "/srv/a", "/srv/rel"), {"name": "filesystem"}, ("/srv/rel",)),
        (("node", "/srv/a", "/srv/rel"), {}, ()),
    ],
)
def test_directories_in_a_filesystem_servers_argv_are_found(
    argv: Sequence[str], rest: dict[str, Any], directories: tuple[str, ...]
) -> None:
    exist = {"", "/srv/a", "/home/user/b", "/home/user", "rel", "/srv/rel", "--x=/srv/a"}
    made = template(*argv, **rest)
    assert argv_directories(made, ENVIRONMENT, exist.__contains__) == directories


def test_a_tilde_stays_where_there_is_no_home() -> None:
    assert argv_directories(template(*OFFICIAL, "~/b"), {}, {"~/b"}.__contains__) == ("~/b",)


def test_b06_children_are_told_the_roots_by_environment() -> None:
    env = dict(plan(template("svc", env={"A": "${TOKEN}"}), TWO, ENVIRONMENT).env)
    assert json.loads(env["MCP_ROOTS_JSON"]) == [
        {"uri": "file:///home/user/project", "name": "Project", "path": "/home/user/project"},
        {"uri": "file:///home/user/documents", "name": "Documents", "path": "/home/user/documents"},
    ]
    assert env["MCP_ROOTS_PATHS"] == "/home/user/project\n/home/user/documents"
    assert env["MCP_ROOTS_COUNT"] == "2"
    assert env["A"] == "s3cret"


def test_variables_that_linux_does_not_take_are_left_out() -> None:
    many = RootSet(tuple(root(f"/srv/{number}/{'x' * 600}") for number in range(220)))
    env = dict(plan(template("svc"), many, ENVIRONMENT).env)
    assert env["MCP_ROOTS_COUNT"] == "220"
    assert {"MCP_ROOTS_JSON", "MCP_ROOTS_PATHS"}.isdisjoint(env)
    run = subprocess.run(["/bin/true"], env=env, check=False)
    assert run.returncode == 0
    fewer = RootSet(tuple(root(f"/srv/{number}/{'x' * 600}") for number in range(200)))
    env = dict(plan(template("svc"), fewer, ENVIRONMENT).env)
    assert env.keys() == {"MCP_ROOTS_COUNT", "MCP_ROOTS_PATHS"}
    assert subprocess.run(["/bin/true"], env=env, check=False).returncode == 0


def test_b06_no_roots_are_told_as_none() -> None:
    env = dict(plan(template("svc"), EMPTY, ENVIRONMENT).env)
    assert env == {"MCP_ROOTS_JSON": "[]", "MCP_ROOTS_PATHS": "", "MCP_ROOTS_COUNT": "0"}


def test_the_operators_env_overrides_the_hubs() -> None:
    made = template("svc", env={"MCP_ROOTS_PATHS": "${roots::}"})
    assert dict(plan(made, TWO, {}).env)["MCP_ROOTS_PATHS"] == ":".join(TWO.paths)


@pytest.mark.parametrize(
    ("roots", "rest", "cwd"),
    [
        (TWO, {}, "/home/user/project"),
        (RootSet((root("/home/user/notes.txt", is_file=True),)), {}, "/home/user"),
        (RootSet((root("C:\\a\\n.txt", is_file=True),)), {}, "C:\\a"),
        (TWO, {"cwd": "/srv"}, "/srv"),
        (TWO, {"cwd": "${root}/sub"}, "/home/user/project/sub"),
        (EMPTY, {}, None),
        (EMPTY, {"cwd": "/srv"}, "/srv"),
        (EMPTY, {"cwd": "${root}/sub"}, None),
        (EMPTY, {"cwd": "/srv", "env": {"DIR": "${root}"}}, None),
    ],
)
def test_a_child_starts_in_the_first_root(
    roots: RootSet, rest: dict[str, Any], cwd: str | None
) -> None:
    assert plan(template("svc", **rest), roots, ENVIRONMENT).cwd == cwd


@pytest.mark.parametrize(
    ("argv", "rest", "where"),
    [
        (("${NO}",), {}, "servers.svc.command: "),
        (("svc", "a", "${NO}"), {}, "servers.svc.args[1]: "),
        (("svc",), {"env": {"A": "${NO}"}}, "servers.svc.env.A: "),
        (("svc",), {"cwd": "${NO}"}, "servers.svc.cwd: "),
    ],
)
def test_an_unset_variable_is_a_config_error_with_its_place(
    argv: Sequence[str], rest: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        plan(template(*argv, **rest), TWO, ENVIRONMENT)
    assert raised.value.faults[0].said.startswith(where + "the variable NO is not set")


@pytest.mark.parametrize(
    ("argv", "rest", "mentions"),
    [
        (("svc", "${roots}"), {}, True),
        (("svc",), {"env": {"A": "${root}"}}, True),
        (("svc",), {"cwd": "${root}"}, True),
        (OFFICIAL, {}, True),
        (("svc",), {"mode": "append"}, True),
        (OFFICIAL, {"mode": "none"}, False),
        (("svc",), {"cwd": "/srv"}, False),
    ],
)
def test_a_template_tells_whether_it_mentions_roots(
    argv: Sequence[str], rest: dict[str, Any], mentions: bool
) -> None:
    assert mentions_roots(template(*argv, **rest)) is mentions


def test_equal_plans_are_one_key_and_other_roots_another() -> None:
    one, same = (plan(template("svc"), TWO, ENVIRONMENT) for _ in range(2))
    other = plan(template("svc"), RootSet((PROJECT,)), ENVIRONMENT)
    assert one == same
    assert len({one, same, other}) == 2


def test_secrets_are_not_shown() -> None:
    made = plan(template("svc", "--token=${TOKEN}", env={"T": "${TOKEN}"}), TWO, ENVIRONMENT)
    assert made.argv[1] == "--token=s3cret"
    assert made.shown == ("svc", "--token=${TOKEN}")
    assert "s3cret" not in repr(made)


def test_plans_that_only_look_different_are_one_child() -> None:
    written, spelled = template("svc", "--token=${TOKEN}"), template("svc", "--token=s3cret")
    plans = [plan(made, TWO, ENVIRONMENT) for made in (written, spelled)]
    assert plans[0].shown != plans[1].shown
    assert len({*plans}) == 1
    assert plans[0] != plan(written, TWO, {"TOKEN": "other"})
    assert plans[0] != plans[0].argv


def test_a_template_does_not_show_what_it_sets() -> None:
    assert "s3cret" not in repr(template("svc", "x", env={"T": "s3cret"}))


@given(
    st.lists(
        st.text(alphabet="ab '\"\n\t$(){}roots:~*-\\", min_size=1).map("/".__add__),
        unique_by=lambda path: path.rstrip("/"),
        max_size=4,
    )
)
def test_a_root_stays_exactly_one_argv_element(paths: list[str]) -> None:
    roots = RootSet(tuple(root(path) for path in paths))
    assert planned("svc", "${roots}", roots=roots) == ("svc", *paths)
    appended = planned(*OFFICIAL, roots=roots)
    assert appended == (*OFFICIAL, *paths)
    assert planned(*map(literal, appended), roots=roots) == appended


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("serve", "there is no command 'serve' on the PATH"),
        ("/opt/serve", "there is no command '/opt/serve'"),
        ("npx serve", "there is no command 'npx serve' on the PATH; arguments go into `args`"),
        ("${TOOLS}/serve", "there is no command '${TOOLS}/serve'"),
    ],
)
def test_a_command_that_is_not_there_is_named_as_it_was_written(command: str, said: str) -> None:
    environment = {"TOOLS": "/s3cret"}
    assert plan(template(command), EMPTY, environment).no_command == said
