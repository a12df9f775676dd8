"""Replace strings in a call's arguments."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from hub.guard.arguments import escaped
from hub.values import Call, Json, JsonObject


def rewritten(call: Call, values: Mapping[str, str]) -> Call:
    """Return `call` with the strings at these JSON pointers into its arguments replaced.

    A pointer into JSON that is itself inside a string has no effect.
    """
    if not values or call.params.get("arguments") is not call.arguments:
        return call
    arguments: JsonObject = {
        key: _replaced(member, f"/{escaped(key)}", values) for key, member in call.arguments.items()
    }
    return replace(call, arguments=arguments, params={**call.params, "arguments": arguments})


def _replaced(value: Json, pointer: str, values: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return values.get(pointer, value)
    if isinstance(value, dict):
        return {
            key: _replaced(member, f"{pointer}/{escaped(key)}", values)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [
            _replaced(member, f"{pointer}/{index}", values) for index, member in enumerate(value)
        ]
    return value
