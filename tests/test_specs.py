import pytest
from msgspec.structs import replace

from hub.guard.policy import Mode, Policy, ToolPolicy
from hub.launch.plan import LaunchTemplate
from hub.launch.templates import parse_template
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.values import ServerName

SPEC = ServerSpec(ServerName("files"), LaunchTemplate("files", parse_template("server")))


def test_a_tool_without_a_policy_of_its_own_has_the_servers() -> None:
    spec = replace(SPEC, policy=Policy(mode=Mode.REPORT))
    assert spec.policy_of("read") == ToolPolicy(Policy(mode=Mode.REPORT))


def test_a_tools_own_policy_goes_before_the_servers() -> None:
    own = ToolPolicy(Policy(mode=Mode.OFF), access="read")
    spec = replace(SPEC, tool_policies={"read": own})
    assert spec.policy_of("read") is own
    assert spec.policy_of("write") == ToolPolicy(Policy())


def test_the_default_policy_enforces() -> None:
    assert SPEC.policy_of("anything").policy.mode is Mode.ENFORCE
    assert (SPEC.share, SPEC.answer_roots, SPEC.eager) == ("auto", True, None)


def test_secrets_in_headers_are_not_shown() -> None:
    target = RemoteTarget("https://example.com/mcp", {"Authorization": "Bearer s3cret"})
    assert "s3cret" not in repr(replace(SPEC, target=target))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("https://example.com", "https://example.com"),
        ("https://example.com:8443/a/b?key=s3cret", "https://example.com:8443/a/b"),
        ("https://example.com?key=s3cret", "https://example.com"),
        ("https://example.com/mcp#s3cret", "https://example.com/mcp"),
        ("https://example.com/mcp#?s3cret", "https://example.com/mcp"),
        ("https://s3cret@example.com/mcp", "https://example.com/mcp"),
        ("https://user:s3cret@example.com:1/mcp?s3cret=1", "https://example.com:1/mcp"),
        ("https://us@er:s3cret@example.com", "https://example.com"),
        ("http://[::1]:80/mcp?key=s3cret", "http://[::1]:80/mcp"),
        ("https://example.com/@me?key=s3cret", "https://example.com/@me"),
    ],
)
def test_secrets_in_an_address_are_not_shown(url: str, shown: str) -> None:
    target = RemoteTarget(url)
    assert target.shown == shown
    assert "s3cret" not in repr(replace(SPEC, target=target))


@pytest.mark.parametrize("identity", ["anna", "https://login.example.com anna", "staff\nanna"])
def test_a_login_is_of_the_clients_principal_and_of_no_other(identity: str) -> None:
    principal = identity.removeprefix("staff\n")
    assert RemoteLogin().owner_for(identity) == principal
    assert RemoteLogin(is_shared=True).owner_for(identity) == ""
    for this_user in ("stdio", "local", "staff\nlocal"):
        assert RemoteLogin().owner_for(this_user) == ""


@pytest.mark.parametrize("url", ["https://u:p'w@h/x?k=a'b", 'https://u:p"w@h/x?k=a"b'])
@pytest.mark.parametrize("around", ["{}", "no answer from '{}': closed", "POST <{}>.", '"{}", it'])
def test_a_quote_in_a_url_ends_no_secret(url: str, around: str) -> None:
    target = RemoteTarget(url)
    spec = ServerSpec(ServerName("far"), target)
    assert spec.without_secrets(around.format(url)) == around.format("https://h/x")


def test_a_quote_in_another_url_ends_no_secret() -> None:
    said = "led to 'https://u:p'w@other/x?k=a'b', not to 'https://h/x'"
    assert SPEC.without_secrets(said) == "led to 'https://other/x', not to 'https://h/x'"
