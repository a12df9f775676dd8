"""The config: reads hub.yaml and MCP clients' own JSON, checks them, follows and edits the file.

Nothing is started here. An error in a config is a `ConfigError` that names the place and never
shows a value, as values may be secrets. Unknown keys in hub.yaml are errors.

Main types: `HubConfig` (the file's shape, pydantic), `LoadContext` (directory, home, environment),
`Loaded` (a config and its warnings), `PathContext` (checks paths of roots on this machine).
The rest of the hub works with `ServerSpec` and `OperatorRoots`, which are made from `HubConfig`.

Read in this order:
- `models` and `fields`: every key and what values it accepts;
- `load`, with `strict_yaml` (duplicate keys) and `mcp_servers` (clients' configs);
- `to_specs`, `operator_roots`: from `HubConfig` to `ServerSpec`s and the operator's roots;
- `own_files`, `own_inodes`: the hub's own files, which calls may not touch;
- `bare_names`: which server had names without prefix, from one start of the hub to the next;
- `withholding`: warnings about environment variables that a child does not get;
- `watch` (take over a changed file while the hub runs) and `edit` (change `roots.fallback`).
"""
