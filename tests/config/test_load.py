import json
from pathlib import Path
from typing import Any

import pytest

from hub.config.fields import LoadContext
from hub.config.load import Loaded, config_from_command, config_source, is_own_config, load_config
from hub.config.models import HubConfig, RemoteServer, StdioServer
from hub.errors import ConfigError
from hub.protocol.http_headers import token_hash

HIDDEN = "s3cret"
EXAMPLE = Path(__file__).parents[2] / "hub.yaml.example"
MINIMAL = "version: 1\nservers: {files: {command: npx}}\n"


def load(tmp_path: Path, text: str, name: str = "hub.yaml", **environment: str) -> Loaded:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load_config(name, LoadContext(tmp_path, "/home/u", environment))


def refused(tmp_path: Path, text: str, name: str = "hub.yaml") -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text, name, TOKEN=HIDDEN)
    assert HIDDEN not in str(raised.value)
    assert raised.value.faults[0].fix
    return raised.value


def stdio(loaded: Loaded, name: str) -> StdioServer:
    server = loaded.config.servers[name]
    assert isinstance(server, StdioServer)
    return server


def test_the_example_is_a_valid_config_with_every_key() -> None:
    loaded = load_config(str(EXAMPLE), LoadContext(Path.cwd(), "/home/u"))
    assert list(loaded.config.servers) == ["files", "issues"]
    text = EXAMPLE.read_text(encoding="utf-8")
    schema = HubConfig.model_json_schema()
    keys = {
        key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", ())
    }
    assert [key for key in sorted(keys) if f"{key}:" not in text] == []


def test_a_minimal_config_has_the_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path, MINIMAL)
    assert loaded.warnings == ()
    assert loaded.config.listen.host == "127.0.0.1"
    assert stdio(loaded, "files").command == "npx"


def test_b07_relative_roots_start_at_the_configs_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    text = MINIMAL + "roots: {fallback: [./data, ~/x], ceiling: [..]}"
    roots = load(tmp_path, text, "sub/hub.yaml").config.roots
    assert [root.path for root in roots.fallback] == [f"{tmp_path}/sub/data", "/home/u/x"]
    assert roots.ceiling == (f"{tmp_path}/sub/..",)


def test_off_is_off_wherever_it_is_a_value(tmp_path: Path) -> None:
    text = "version: 1\nguard: off\nservers: {a: {command: x, guard: {mode: off}, confine: off}}"
    config = load(tmp_path, text).config
    assert config.guard.mode == "off"
    assert config.guard_of("a").mode == "off"


def test_variables_are_read_where_the_hub_needs_them(tmp_path: Path) -> None:
    text = """
version: 1
listen: {token: "${TOKEN}"}
servers:
  a: {url: "https://${HOST:-h.example}/", headers: {Authorization: "Bearer ${TOKEN}"}}
  b: {command: x, args: ["--t=${TOKEN}"]}
"""
    loaded = load(tmp_path, text, TOKEN=HIDDEN)
    remote = loaded.config.servers["a"]
    assert isinstance(remote, RemoteServer)
    assert remote.url == "https://h.example/"
    assert remote.headers["Authorization"].plain == "Bearer s3cret"
    assert stdio(loaded, "b").args == ("--t=${TOKEN}",)
    assert HIDDEN not in repr(loaded)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "is empty"),
        ("# only a comment", "is empty"),
        ("servers: {a: {command: x}}", "version is missing"),
        ("- 1", "must be a mapping"),
        ("version: 2\nservers: {a: {command: x}}", "version: must be the number 1"),
        ("version: 1", "servers: no servers"),
        (MINIMAL + "gaurd: off", "gaurd: unknown key"),
        (MINIMAL + "names: sometimes", "names: must be auto, always or never"),
        (MINIMAL + "roots: {timeout: .inf}", "roots.timeout: must be a number of seconds"),
        (MINIMAL + "roots: {timeout: 0}", "roots.timeout: must be more than 0"),
        (MINIMAL + "roots: {ceiling: /a}", "roots.ceiling: must be a list"),
        (MINIMAL + "roots: {ceiling: [~other]}", "roots.ceiling[0]: only ~ and ~/..."),
        *(
            (
                f"version: 1\nservers: {{a: {{command: x, environment: {wrong}}}}}",
                "servers.a.environment: must be default, all, minimal, or a list of names",
            )
            for wrong in ("GITHUB_TOKEN", "[A=B]", "{A: b}", "[1]", "true")
        ),
        (
            "version: 1\nservers: {a: {url: 'http://h', environment: all}}",
            "servers.a.environment: unknown key",
        ),
        (MINIMAL + "expose: all", "expose: must be tools or search"),
        ("version: 1\nservers: {a: {}}", "servers.a: has no command and no url"),
        (
            "version: 1\nservers: {a: {command: x, url: y}}",
            "servers.a: has both a command and a url",
        ),
        ("version: 1\nservers: {a: {command: x, comand: y}}", "servers.a.comand: unknown key"),
        (
            "version: 1\nservers: {a: {command: x, args: [b, '--d=${roots}']}}",
            "servers.a.args[1]: ${roots} must be an argument of its own",
        ),
        (
            "version: 1\nservers: {a: {command: x, args: ['${rots}']}}",
            "servers.a.args[0]: the variable rots is not set",
        ),
        (
            "version: 1\nservers: {a: {command: x, env: {A: '${NO}'}}}",
            "servers.a.env.A: the variable NO is not set",
        ),
        ("version: 1\nservers: {a: {url: '${TOKEN}'}}", "servers.a.url: must be an http"),
        ("version: 1\nservers: {'': {command: x}}", "servers.: is empty"),
        ("a: [1", "line 1, column 4: "),
        ("a: \x07", "line 1, column 4: has a character"),
    ],
)
def test_an_error_names_its_place(tmp_path: Path, text: str, where: str) -> None:
    assert refused(tmp_path, text).faults[0].said.startswith(f"hub.yaml: {where}")


def test_a_near_miss_is_corrected(tmp_path: Path) -> None:
    assert refused(tmp_path, MINIMAL + "gaurd: off").faults[0].fix == "Write `guard`."


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("", "Start with `version: 1` and `servers:`."),
        ("version: 1\nservers: {a: {comand: x}}", "Write `command`."),
        ("version: 1\nservers: {a: {}}", "Give it either a `command` or a `url`."),
        ("version: 1\nservers: {a: 5}", "Give it a `command` and `args`, or a `url`."),
        ("version: 1\nservers: {a: npx -y x}", "Write `{command: npx, args: [-y, x]}`."),
        (
            "version: 1\nservers: {a: {command: x, env: {A: '${NO}'}}}",
            "Set it for the hub, or give it a default: ${NO:-default}.",
        ),
        (
            "version: 1\nservers: {a: {command: x, args: ['${input:key}']}}",
            "Set HUB_INPUT_KEY for the hub. `roots-hub check` asks for it on a terminal.",
        ),
    ],
)
def test_an_error_says_what_to_do(tmp_path: Path, text: str, fix: str) -> None:
    assert refused(tmp_path, text).faults[0].fix.startswith(fix)


def test_keys_of_list_items_are_known_too(tmp_path: Path) -> None:
    text = MINIMAL + "roots: {fallback: [{path: /a, nmae: x}]}"
    assert refused(tmp_path, text).faults[0].fix == "Write `name`."


@pytest.mark.parametrize(
    ("text", "home"),
    [
        (MINIMAL + "describe_roots: true", "servers.NAME"),
        (MINIMAL + "when_missing: deny", "roots"),
        (MINIMAL + "roots: {expose: search}", "the top level"),
        (MINIMAL + "overrides: {}", "servers.NAME.tools"),
        (MINIMAL + "deny: []", "roots or servers.NAME.tools"),
        (MINIMAL + "name: x", "listen.tokens[] or roots.fallback[]"),
    ],
)
def test_a_key_in_the_wrong_place_is_sent_to_its_own(tmp_path: Path, text: str, home: str) -> None:
    assert refused(tmp_path, text).faults[0].fix == f"It belongs in {home}."
    assert "mean" not in refused(tmp_path, MINIMAL + "qqqqqq: off").faults[0].fix


CLAUDE: dict[str, Any] = {
    "mcpServers": {"a": {"command": "x", "autoApprove": []}, "b": {"url": "https://x/"}}
}


def test_h14_a_clients_json_is_a_config_unmodified(tmp_path: Path) -> None:
    loaded = load(tmp_path, json.dumps(CLAUDE, indent="\t"), ".mcp.json")
    assert list(loaded.config.servers) == ["a", "b"]
    assert loaded.warnings == (".mcp.json: mcpServers.a: ignored: autoApprove",)


def test_h14_json_can_stand_in_the_environment(tmp_path: Path) -> None:
    source = config_source(None, {"HUB_CONFIG": json.dumps(CLAUDE)})
    assert source is not None
    loaded = load_config(source, LoadContext(tmp_path))
    assert list(loaded.config.servers) == ["a", "b"]
    assert loaded.warnings[0].startswith("the config: ")


def test_the_option_goes_before_the_environment() -> None:
    assert config_source("a", {"HUB_CONFIG": "b"}) == "a"
    assert config_source(None, {"HUB_CONFIG": "b"}) == "b"
    assert config_source(None, {"HUB_CONFIG": ""}) is None
    assert config_source(None, {"HUB_CONFIG": " "}) is None


def test_json_can_have_comments_and_trailing_commas(tmp_path: Path) -> None:
    text = """{ // VS Code writes such
      "servers": {"a": {"command": "x//y,}", "args": ["/*", "b",], /* here
      too */ }, // and here
      },
    }"""
    assert stdio(load(tmp_path, text, "mcp.json"), "a").args == ("/*", "b")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            '{"mcpServers": {"a": {"command": "x", "args": "y"}}}',
            "mcpServers.a.args: must be a list",
        ),
        ('{"mcpServers": {"a": {"disabled": true}}}', "mcpServers: every server is disabled"),
        ('{"mcpServers": {"a": 1, "a": 2}}', "line 1, column 25: duplicate key 'a'"),
        ('{"mcpServers":\n  {/* x */ a}}', "line 2, column 12: "),
        (
            '{"version": 1, "servers": {"a": {"command": "x", "type": "stdio"}}}',
            "servers.a.type: unk",
        ),
    ],
)
def test_an_error_in_json_names_its_place(tmp_path: Path, text: str, where: str) -> None:
    assert refused(tmp_path, text, "mcp.json").faults[0].said.startswith(f"mcp.json: {where}")


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    context = LoadContext(tmp_path)
    with pytest.raises(ConfigError, match=r"^no\.yaml: no such file\n"):
        load_config("no.yaml", context)
    (tmp_path / "dir.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"^dir\.yaml: is a directory\nName the file in it\."):
        load_config("dir.yaml", context)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(ConfigError, match=r"^latin\.yaml: is not UTF-8"):
        load_config("latin.yaml", context)


@pytest.mark.parametrize(
    ("text", "name", "own"),
    [
        (MINIMAL, "hub.yaml", True),
        (MINIMAL, "hub.yml", True),
        ('{"version": 1, "servers": {"files": {"command": "npx"}}}', "hub.json", False),
        ('{"mcpServers": {"files": {"command": "npx"}}}', "mcp.yaml", False),
    ],
)
def test_only_yaml_in_our_own_shape_is_ours_to_write(
    tmp_path: Path, text: str, name: str, own: bool
) -> None:
    load(tmp_path, text, name)
    assert is_own_config(name, LoadContext(tmp_path)) is own
    assert not is_own_config(text if text.startswith("{") else "{}", LoadContext(tmp_path))


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-filesystem@1", "/x"], "server-filesystem"),
        (["./bin/my server"], "my-server"),
        (["%%"], "server"),
    ],
)
def test_a_command_line_is_a_hub_with_one_server(argv: list[str], name: str) -> None:
    config = config_from_command(argv, LoadContext(Path("/w")))
    assert list(config.servers) == [name]
    assert config.names == "auto"


def test_a_command_lines_mistake_names_the_argument() -> None:
    with pytest.raises(ConfigError, match=r"^argument 1 of the server's command: the variable NO"):
        config_from_command(["x", "${NO}"], LoadContext(Path("/w")))


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("version: 1\nservers: {a: {command: x, type: stdio}}", "Leave it out: "),
        (
            "version: 1\nservers: {a: {command: x, disabled: true}}",
            "To disable a server, comment it out.",
        ),
    ],
)
def test_keys_that_other_programs_have_are_known_to_be_theirs(
    tmp_path: Path, text: str, fix: str
) -> None:
    assert refused(tmp_path, text).faults[0].fix.startswith(fix)


def test_a_windows_path_in_json_is_said_to_want_its_backslashes_twice(tmp_path: Path) -> None:
    text = r'{"mcpServers": {"a": {"command": "C:\Users\x"}}}'
    assert refused(tmp_path, text, "client.json").faults[0].fix == r"Write each \ twice."


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "version: 1\nguard: of\nservers:\n  a: {comand: x}\n  b: {command: x, timeout: 5m}\n"
    error = refused(tmp_path, text)
    assert [fault.fix for fault in error.faults] == [
        "Write `guard: off`.",
        "Write `command`.",
        "Write `timeout: 300`.",
    ]
    assert str(error).endswith("\n\n3 mistakes.")
    assert error.faults[2].excerpt.splitlines() == [
        " --> hub.yaml:5:28",
        "  |",
        "5 |   … timeout: 5m",
        "  |              ^^",
    ]


def test_numbers_in_env_and_args_are_texts(tmp_path: Path) -> None:
    yaml = "version: 1\nservers: {a: {command: x, args: [80, 1.10, yes], env: {P: 80, M: 0755}}}"
    server = stdio(load(tmp_path, yaml), "a")
    assert (server.args, filled(server)) == (("80", "1.10", "yes"), {"P": "80", "M": "0755"})
    json_text = '{"mcpServers": {"a": {"command": "x", "args": [80, 1.10], "env": {"P": true}}}}'
    server = stdio(load(tmp_path, json_text, "x.json"), "a")
    assert (server.args, filled(server)) == (("80", "1.10"), {"P": "true"})


def filled(server: StdioServer) -> dict[str, str]:
    return {name: text.fill(lambda _: None, ()) for name, text in server.env.items()}


def test_a_variable_that_is_not_set_leaves_out_its_server_alone(tmp_path: Path) -> None:
    text = "version: 1\nservers: {a: {command: x, env: {A: '${NO}'}}, b: {command: y}}"
    config = load(tmp_path, text).config
    assert list(config.servers) == ["b"]
    (left_out,) = config.left_out
    assert left_out.name == "a"
    assert left_out.reason == (
        "hub.yaml: servers.a.env.A: the variable NO is not set. "
        "Set it for the hub, or give it a default: ${NO:-default}."
    )
    assert not config.is_clients


def test_a_mistake_in_a_hub_yaml_is_an_error_even_beside_a_missing_variable(tmp_path: Path) -> None:
    text = "version: 1\nservers: {a: {command: '${NO}/x'}, b: {command: y, no: 1}, c: {command: z}}"
    assert len(refused(tmp_path, text).faults) == 2


def test_what_makes_no_sense_in_a_clients_file_leaves_out_its_server_alone(tmp_path: Path) -> None:
    entries: dict[str, Any] = {
        "a": {"command": "x"},
        "b": {"source": "extension", "settings": {}},
        "c": {"command": "x", "args": "y"},
        "d": {"command": "x", "cwd": 5},
        "e": {"type": "ws", "url": "ws://x"},
        "f": None,
    }
    config = load(tmp_path, json.dumps({"context_servers": entries}), "zed.json").config
    assert list(config.servers) == ["a"]
    assert [one.name for one in config.left_out] == ["b", "c", "d", "e", "f"]
    assert config.is_clients
    assert all(
        one.faults[0].said.startswith(f"zed.json: context_servers.{one.name}")
        for one in config.left_out
    )


def test_a_file_without_a_server_that_can_be_used_is_an_error(tmp_path: Path) -> None:
    entries = {"a": {"source": "extension"}, "b": {"command": "x", "cwd": 5}}
    error = refused(tmp_path, json.dumps({"mcpServers": entries}), "x.json")
    assert len(error.faults) == 2


def test_codex_has_its_servers_in_toml(tmp_path: Path) -> None:
    text = (
        '[mcp_servers.a]\ncommand = "x"\nargs = [1]\n[mcp_servers.b]\nbearer_token_env_var = "T"\n'
    )
    config = load(tmp_path, text + 'url = "https://h/"\n', "config.toml").config
    assert list(config.servers) == ["a"]
    fault = config.left_out[0].faults[0]
    assert fault.said == (
        "config.toml: mcp_servers.b.bearer_token_env_var: the variable T is not set"
    )
    assert fault.fix == "Set the variable T for the hub."


def test_a_file_that_is_nearly_a_clients_is_told_the_section(tmp_path: Path) -> None:
    assert refused(tmp_path, '{"mcpservers": {}}', "x.json").faults[0].fix == "Write `mcpServers`."
    unwrapped = refused(tmp_path, '{"a": {"command": "x"}}', "x.json")
    assert unwrapped.faults[0].said == "x.json: the servers are not in a section"


@pytest.mark.parametrize(
    ("listen", "where"),
    [
        ("names: [hub.example.com]", "listen.names: others can reach the hub as hub.example.com"),
        ("names: [localhost, 10.0.0.7]", "listen.names: others can reach the hub as 10.0.0.7"),
        ("trusted_proxies: [127.0.0.1]", "listen.trusted_proxies: others can reach the hub"),
    ],
)
def test_who_can_be_reached_through_a_proxy_needs_a_token(
    tmp_path: Path, listen: str, where: str
) -> None:
    error = refused(tmp_path, MINIMAL + f"listen: {{{listen}}}")
    assert error.faults[0].said.startswith(f"hub.yaml: {where}")
    assert error.faults[0].said.endswith("and there is no token")
    assert "HUB_TOKEN" in error.faults[0].fix
    own = MINIMAL + f'listen: {{{listen}, token: "${{T}}"}}'
    assert load(tmp_path, own, T=HIDDEN).config.listen.token is not None
    load(tmp_path, MINIMAL + f"listen: {{{listen}}}", HUB_TOKEN=HIDDEN)


def test_a_name_of_this_machine_needs_no_token(tmp_path: Path) -> None:
    loaded = load(tmp_path, MINIMAL + "listen: {names: [localhost, 127.0.0.2]}")
    assert loaded.config.listen.names == ("localhost", "127.0.0.2")


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ("[{name: a}]", "needs exactly one of token and sha256"),
        (f"[{{name: a, token: x, sha256: '{token_hash(HIDDEN)}'}}]", "needs exactly one of"),
        ("[{name: a, sha256: abc}]", "must be a SHA-256 hash"),
        ("[{name: local, token: x}]", "clients without a token of their own"),
        ("[{name: a b, token: x}]", "must be a name of up to 64"),
        ("[{name: a, token: x}, {name: a, token: y}]", "the name a is there twice"),
        ("[{name: a, token: x}, {name: b, token: x}]", "a and b have the same token"),
        ("[{name: a, token: '${UNSET}'}]", "UNSET"),
    ],
)
def test_a_named_token_that_cannot_be_told_is_an_error(
    tmp_path: Path, tokens: str, why: str
) -> None:
    error = refused(tmp_path, f"{MINIMAL}listen: {{tokens: {tokens}}}")
    assert "listen.tokens" in str(error)
    assert why in str(error)


def test_a_named_token_may_be_a_variable_and_its_hash_of_any_case(tmp_path: Path) -> None:
    hash_ = token_hash("other")
    tokens = f"[{{name: a, token: '${{TOKEN}}'}}, {{name: b, sha256: {hash_.upper()}}}]"
    text = f"{MINIMAL}listen: {{tokens: {tokens}}}"
    loaded = load(tmp_path, text, TOKEN="x").config.listen.tokens  # noqa: S106 - opens nothing
    assert {one.name: one.hash for one in loaded} == {"a": token_hash("x"), "b": hash_}
