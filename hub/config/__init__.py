"""The config: reads hub.yaml and MCP clients' own JSON, checks them, follows and edits the file.

Nothing is started here. An error in a config is a `ConfigError` with all mistakes, their places and
remedies; it shows no value that may be a secret. Unknown keys in hub.yaml are errors. A server that
cannot be used is left out, if the file is a client's or a variable is not set; the others run.

Main types: `HubConfig` (the file's shape, pydantic), `LoadContext` (directory, home, environment),
`Loaded` (a config and its warnings), `PathContext` (checks paths of roots on this machine).
The rest of the hub works with `ServerSpec` and `OperatorRoots`, which are made from `HubConfig`.

Read in this order:
- `models` and `fields`: every key and what values it accepts;
- `load`, with `source` (the text), `clients` (clients' configs), `problems` and `suggestions`;
- `to_specs`, `operator_roots`: from `HubConfig` to `ServerSpec`s and the operator's roots;
- `narrowing`: what is left of them for the clients of a profile;
- `own_files`: the hub's own files, which calls may not touch;
- `bare_names`: which server had names without prefix, from one start of the hub to the next;
- `withholding`: warnings about variables and confinement that a child does not get;
- `watch` (take over a changed file while the hub runs), with `reload` (which part of it, and when),
  and `edit` (change `roots.fallback`).
"""
