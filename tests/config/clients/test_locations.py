from pathlib import Path

import pytest

from hub.config.clients.locations import CLIENTS, UserPlace, client_file, client_files, is_installed

HOME, HERE = Path("/home/kim"), Path("/work")


def user_file(client: str, platform: str, home: Path = HOME, **environment: str) -> str:
    file = client_file(client, "user", UserPlace(home, environment, platform, HERE))
    assert file is not None
    return str(file.path)


@pytest.mark.parametrize(
    ("client", "linux", "mac", "windows"),
    [
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-code", ".claude.json", ".claude.json", ".claude.json"),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            "AppData/Roaming/Code/User/mcp.json",
        ),
        ("windsurf", *[".codeium/windsurf/mcp_config.json"] * 3),
        (
            "zed",
            ".config/zed/settings.json",
            ".config/zed/settings.json",
            "AppData/Roaming/Zed/settings.json",
        ),
        ("codex", *[".codex/config.toml"] * 3),
        ("gemini", *[".gemini/settings.json"] * 3),
        (
            "goose",
            ".config/goose/config.yaml",
            ".config/goose/config.yaml",
            "AppData/Roaming/Block/goose/config/config.yaml",
        ),
        ("opencode", *[".config/opencode/opencode.json"] * 3),
    ],
)
def test_each_system_has_its_places(client: str, linux: str, mac: str, windows: str) -> None:
    found = [user_file(client, platform) for platform in ("linux", "darwin", "win32")]
    assert found == [f"{HOME}/{linux}", f"{HOME}/{mac}", f"{HOME}/{windows}"]


def test_variables_say_other_places() -> None:
    assert user_file("zed", "linux", XDG_CONFIG_HOME="/x") == "/x/zed/settings.json"
    assert user_file("vscode", "linux", XDG_CONFIG_HOME="/x") == "/x/Code/User/mcp.json"
    assert user_file("goose", "linux", XDG_CONFIG_HOME="x") == f"{HOME}/.config/goose/config.yaml"
    assert user_file("codex", "linux", CODEX_HOME="/c") == "/c/config.toml"
    assert user_file("claude-code", "linux", CLAUDE_CONFIG_DIR="/c") == "/c/.claude.json"
    assert user_file("claude-desktop", "win32", APPDATA="/a").startswith("/a/Claude/")


def test_projects_have_files_of_their_own() -> None:
    place = UserPlace(HOME, {}, "linux", HERE)
    found = {name: client_file(name, "project", place) for name in CLIENTS}
    paths = {name: str(one.path.relative_to(HERE)) for name, one in found.items() if one}
    assert paths == {
        "claude-code": ".mcp.json",
        "cursor": ".cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
        "zed": ".zed/settings.json",
        "codex": ".codex/config.toml",
        "gemini": ".gemini/settings.json",
        "opencode": "opencode.json",
    }
    settings = [one for one in client_files("vscode", place) if one.section == ("mcp", "servers")]
    assert [one.scope for one in settings] == ["user", "project"]


def test_opencode_goes_on_with_the_file_that_it_has(tmp_path: Path) -> None:
    place = UserPlace(tmp_path, {}, "linux", tmp_path)
    (tmp_path / "opencode.jsonc").write_text('{"mcp": {"servers": {}}} // its second version')
    found = [one for one in client_files("opencode", place) if one.scope == "project"]
    assert [one.path.name for one in found] == ["opencode.jsonc"]
    assert found[0].section == ("mcp", "servers")
    (tmp_path / "opencode.json").write_text('{"mcp": {}}')
    found = [one for one in client_files("opencode", place) if one.scope == "project"]
    assert [one.path.name for one in found] == ["opencode.json", "opencode.jsonc"]
    assert found[0].section == ("mcp",)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_there_once_it_has_its_directory(client: str, tmp_path: Path) -> None:
    place = UserPlace(tmp_path, {}, "linux", HERE)
    assert not is_installed(client, place)
    path = Path(user_file(client, "linux", tmp_path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert is_installed(client, place)


def test_claude_code_is_there_before_it_has_written_its_file(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    assert is_installed("claude-code", UserPlace(tmp_path, {}, "linux", HERE))
