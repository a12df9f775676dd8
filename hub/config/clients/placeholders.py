"""Put the placeholders of MCP clients into the hub's own spelling."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from hub.launch.templates import literal

_THEIRS: Final = re.compile(
    r"\$\{env[:.](?P<editor>\w+)(?P<default>:-[^{}]*)?\}"  # Cursor, VS Code, Windsurf
    r"|\{env:(?P<opencode>\w+)\}"
    r"|\$\{\{\s*(?:secrets|inputs)\.(?P<continue>\w+)\s*\}\}"
    r"|\$\{input:(?P<input>[^{}]+)\}"
    r"|\$\{(?P<place>workspaceFolder(?::[^{}]*)?|workspaceRoot|userHome|pathSeparator|/)\}"
)
_BARE: Final = re.compile(r"(?<![\w$\\])\$([A-Za-z_]\w*)")
_WHOLE: Final = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_SHELLS: Final = frozenset(
    {"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"}
)


class Respelling(Struct, frozen=True):
    """Respells the placeholders of one file; `defaults` are those of its inputs."""

    home: str | None
    environment: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])

    def entry(self, server: dict[str, Any]) -> dict[str, Any]:
        """Return a server, in the hub's shape, with the placeholders as the hub spells them."""
        shell = re.split(r"[\\/]", str(server.get("command", "")))[-1].removesuffix(".exe")
        return {
            key: self._value(
                value, bare=key != "command" and (key != "args" or shell not in _SHELLS)
            )
            for key, value in server.items()
        }

    def _value(self, value: Any, *, bare: bool) -> Any:
        if isinstance(value, str):
            return self._text(value, bare=bare)
        if isinstance(value, list):
            return [self._value(one, bare=bare) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            return {key: self._value(one, bare=bare) for key, one in inner.items()}
        return value

    def _text(self, text: str, *, bare: bool) -> str:
        text = _THEIRS.sub(self._ours, text)
        if whole := _WHOLE.fullmatch(text):
            return f"${{{whole[1]}}}"
        return _BARE.sub(self._set, text) if bare else text

    def _set(self, found: re.Match[str]) -> str:
        """Return `$NAME` as the hub spells it, if there is such a variable."""
        return f"${{{found[1]}}}" if found[1] in self.environment else found[0]

    def _ours(self, found: re.Match[str]) -> str:
        name = found["editor"] or found["opencode"] or found["continue"]
        if name:
            return f"${{{name}{found['default'] or ''}}}"
        if found["input"]:
            default = self.defaults.get(found["input"])
            return found[0] if default is None else f"${{input:{found['input']}:-{default}}}"
        place = found["place"]
        if place.startswith("workspace"):
            return "${root}"
        return literal(self.home or "~") if place == "userHome" else os.sep
