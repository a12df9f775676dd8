"""The text of a config: reads YAML, JSON and TOML, and tells where in the text each value is.

Knows no key of any config. A duplicate key is an error. Positions are only looked for when there is
a mistake to show. An excerpt shows no secret: values below `env`, `headers` and the like, and
whatever looks like a key, are replaced by `…`.

Main types: `Document` (a text and its value; makes a `Fault` for a path in it), `Place` (where the
key and the value of a path are).

Read in this order:
- `documents`: read a file or inline JSON;
- `places`: find paths in the text, and show a line with its mistake underlined;
- `json_text`, `toml`: parse, with the line and column of a mistake, and edit a text;
- `strict_yaml`: parse YAML; `yaml_text`: write a value as YAML, and edit a text.
"""
