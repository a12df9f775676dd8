"""The config: reads hub.yaml and MCP clients' own JSON, checks them, follows and edits the file.

Nothing is started here. An error in a config is a `ConfigError` with all mistakes, their places and
remedies; it shows no value that may be a secret. Unknown keys in hub.yaml are errors. A server that
cannot be used is left out, if the file is a client's or a variable is not set; the others run.

Main types: `HubConfig` (the file's shape, pydantic), `LoadContext` (directory, home, environment),
`Loaded` (a config and its warnings), `PathContext` (checks paths of roots on this machine).
The rest of the hub works with `ServerSpec` and `OperatorRoots`, which are made from `HubConfig`.

Read in this order:
- `models` and `fields`: every key and what values it accepts; `listening`: those for HTTP;
- `load`, with `source` (the text), `clients` (clients' configs), `problems` and `suggestions`;
- `carrying`: clients' servers brought together in one hub.yaml; no secret, unless it is asked for;
- `to_specs`, `operator_roots`: from `HubConfig` to `ServerSpec`s and the operator's roots, and what
  is left of them for the clients of a profile;
- `own_files`: files of the hub that calls may not touch; `records`: trust, names without prefix;
- `inheritance`: variables that a child gets, and warnings about those that it does not;
- `watch` with `reload`: a changed file of a running hub;
- `editing`: the hub's entry in the text of a client's config; `fallback`: roots in a hub.yaml.
"""
