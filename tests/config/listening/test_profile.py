from pathlib import Path

import pytest

from hub.config.fields import LoadContext
from hub.config.listening.profile import Profile
from hub.config.load import load_config
from hub.errors import ConfigError

HEAD = """\
version: 1
servers: {files: {command: npx}, git-main: {command: npx}}
listen: {tokens: [{name: ci, token: "0123456789abcdef"}, {name: anna, token: "0123456789abcdeg"}]}
"""


def load(folder: Path, profiles: str) -> dict[str, Profile]:
    file = folder / "hub.yaml"
    file.write_text(f"{HEAD}profiles: {profiles}\n")
    return load_config(str(file), LoadContext(folder, "/home/u", {})).config.profiles


def test_a_profile_with_nothing_is_for_all_and_takes_nothing_away(tmp_path: Path) -> None:
    (one,) = load(tmp_path, "{work: {}}").values()
    assert one.match is None
    assert (one.servers, one.tools.allow, one.tools.deny) == (("*",), ("*",), ())


def test_one_match_needs_no_list(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "{a: {match: {tokens: [ci]}}, b: {match: [{tokens: [ci]}, {groups: [staff, ops]}]}}",
    )
    assert found["a"].match is not None
    assert found["b"].match is not None
    assert [one.tokens for one in found["a"].match] == [("ci",)]
    assert [one.wanted_claims for one in found["b"].match] == [
        {},
        {"groups": frozenset({"staff", "ops"})},
    ]


def test_groups_are_a_claim(tmp_path: Path) -> None:
    text = "{a: {match: {groups: [x, y], claims: {tenant: t, groups: [y, z]}}}}"
    match = load(tmp_path, text)["a"].match
    assert match is not None
    assert match[0].wanted_claims == {"tenant": frozenset({"t"}), "groups": frozenset({"y"})}


def test_paths_start_at_the_config_file(tmp_path: Path) -> None:
    text = "{a: {roots: {ceiling: [data, ~/x], access: [{path: data, access: read}]}}}"
    roots = load(tmp_path, text)["a"].roots
    assert roots.ceiling == (f"{tmp_path}/data", "/home/u/x")
    assert roots.access[0].path == f"{tmp_path}/data"


def test_a_bare_guard_is_its_mode(tmp_path: Path) -> None:
    assert load(tmp_path, "{a: {guard: enforce}}")["a"].guard.mode == "enforce"
    found = load(tmp_path, "{a: {guard: {symlinks: deny, on_refused: refuse}}}")["a"].guard
    assert (found.mode, found.symlinks, found.on_refused) == (None, "deny", "refuse")


@pytest.mark.parametrize(
    ("profiles", "where", "why"),
    [
        ("{a/b: {}}", "profiles", "a/b"),
        ("{a: {match: {}}}", "profiles.a.match[0]", "fits nobody"),
        ("{a: {match: []}}", "profiles.a.match", "is an empty list"),
        (
            "{a: {match: {tokens: [ci], groups: [x]}}}",
            "profiles.a.match[0]",
            "has tokens and claims",
        ),
        ("{a: {match: {tokens: [cj]}}}", "profiles.a.match", "there is no token cj"),
        (
            "{a: {match: {tokens: [cj]}}}",
            "profiles.a.match",
            "Take it out, or write one of these: token, ",
        ),
        ("{a: {match: [{tokens: [ci, x]}]}}", "profiles.a.match[0].tokens[1]", "no token x"),
        ("{a: {servers: [file]}}", "profiles.a.servers[0]", "there is no server file"),
        ("{a: {servers: [x*]}}", "profiles.a.servers[0]", "there is no server x*"),
        ("{a: {tools: {allow: [x/read]}}}", "profiles.a.tools.allow[0]", "no server x"),
        ("{a: {tools: {deny: [git/*]}}}", "profiles.a.tools.deny[0]", "no server git"),
        ("{a: {guard: off}}", "profiles.a.guard", "would allow something"),
        ("{a: {guard: report}}", "profiles.a.guard", "would allow something"),
        ("{a: {guard: {symlinks: follow}}}", "profiles.a.guard.symlinks", "must be deny"),
        ("{a: {roots: {deny: ['*.env', '!a.env']}}}", "profiles.a.roots.deny", "!a.env"),
        ("{a: {roots: {fallback: [x]}}}", "profiles.a.roots.fallback", "unknown key"),
        ("{a: {match: {issuer: 'http://x.example'}}}", "profiles.a.match", "https"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    tmp_path: Path, profiles: str, where: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, profiles)
    text = str(caught.value)
    assert where in text
    assert why in text
    assert len(text.splitlines()) > 1


@pytest.mark.parametrize(
    "profiles",
    [
        "{a: {match: {tokens: [token]}}}",
        "{a: {servers: [git-*], tools: {allow: [git-*/log, read_*], deny: ['*/write']}}}",
    ],
)
def test_what_is_there_may_be_named(tmp_path: Path, profiles: str) -> None:
    assert load(tmp_path, profiles)


AUTH = (
    "auth: {resource: 'https://h.example/mcp', "
    "issuers: [{issuer: 'https://a.example'}, {issuer: 'https://b.example'}]}"
)
NO_ISSUER = "listen.auth has no issuer https://a.example/: this fits nobody"


@pytest.mark.parametrize(
    ("match", "is_with_auth", "said"),
    [
        ("{tokens: [ci]}", False, None),
        ("{groups: [x]}", True, None),
        ("{issuer: 'https://b.example', groups: [x]}", True, None),
        ("{issuer: 'https://a.example/'}", True, NO_ISSUER),
        ("{issuer: 'https://a.example/', groups: [x]}", False, NO_ISSUER),
        ("{claims: {tenant: x}}", False, "there is no listen.auth: this fits nobody"),
    ],
)
def test_a_match_that_fits_nobody_is_told(
    tmp_path: Path, match: str, said: str | None, *, is_with_auth: bool
) -> None:
    file = tmp_path / "hub.yaml"
    head = HEAD.replace("listen: {", f"listen: {{{AUTH}, ") if is_with_auth else HEAD
    file.write_text(f"{head}profiles: {{a: {{match: [{{tokens: [anna]}}, {match}]}}}}\n")
    warnings = load_config("hub.yaml", LoadContext(tmp_path, "/home/u", {})).warnings
    wanted = () if said is None else (f"hub.yaml: profiles.a.match[1]: {said}",)
    assert warnings == wanted
