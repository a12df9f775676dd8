"""Configs with something cut out, put in or repeated: a clear error each, and no secret in it."""

import random
from pathlib import Path

import pytest

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.errors import ConfigError

HIDDEN = "ghp_0123456789abcdefghij"
TEXTS = {
    "yaml": f"""version: 1
listen: {{token: {HIDDEN}, port: 80}}
roots: {{timeout: 5, deny: ["**/.env"]}}
servers:
  a:
    command: x
    args: [-y, "{HIDDEN}", 8080]
    env: {{A_KEY: {HIDDEN}}}
  b: {{url: "https://h/", headers: {{Authorization: "Bearer {HIDDEN}"}}}}
""",
    "json": f"""{{
  // a comment
  "inputs": [{{"id": "k", "default": "d"}}],
  "servers": {{
    "a": {{"command": ["x", "--k", "{HIDDEN}"], "env": {{"K": "{HIDDEN}", "N": 1.10}}}},
    "b": {{"url": "https://h/", "headers": {{"Authorization": "Bearer {HIDDEN}"}}}},
  }}
}}""",
    "toml": f"""model = "m"
[mcp_servers.a]
command = "x"
args = ["{HIDDEN}"]
[mcp_servers.a.env]
K = "{HIDDEN}"
[mcp_servers.b]
url = "https://h/"
http_headers = {{ "Authorization" = "Bearer {HIDDEN}" }}
""",
}
PIECES = [
    *("{", "}", "[", "]", ":", ",", '"', "'", "\t", " ", "\n", "#", "*", "&", "!", "null", "true"),
    *("1.5", "-", "${X}", "${", "$A", "\\", "\u00e9", "\0", "~", "<<", "|", ">", "%", "@", "="),
]


def broken(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randint(1, 12))
        match chance.randrange(3):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + chance.choice(PIECES) + text[start:]
            case _:
                text = text[:start] + text[end:] + text[start:end]
    return text


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("seed", range(4))
def test_a_broken_config_is_a_clear_error_without_secrets(
    tmp_path: Path, form: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    context = LoadContext(tmp_path, "/home/u", {})
    for _ in range(40):
        text = broken(TEXTS[form], chance)
        (tmp_path / f"x.{form}").write_text(text, encoding="utf-8")
        try:
            faults = [
                fault
                for one in load_config(f"x.{form}", context).config.left_out
                for fault in one.faults
            ]
        except ConfigError as error:
            faults = list(error.faults)
        shown = "\n".join(map(str, faults))
        assert HIDDEN not in shown, text
        assert all(fault.fix for fault in faults)
