"""Read YAML and reject duplicate keys."""

from __future__ import annotations

from typing import Any

import yaml

from hub.errors import ConfigError

_TAB = r"found character '\t' that cannot start any token"
"""The parser's message about indentation with a tab."""


class _Loader(yaml.SafeLoader):
    """A YAML loader for which a duplicate key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"duplicate key {key.value!r}", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> object:
    """Return the value of a YAML text.

    Raises: ConfigError with line and column if it is not YAML or has a duplicate key.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        fix = "Indent with spaces." if error.problem == _TAB else "Correct the YAML."
        raise ConfigError(f"{at}{error.problem}", fix) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML raises ValueError for an impossible date.
        raise ConfigError(f"not YAML: {error.__class__.__name__}", "Correct it.") from None
