"""Configs of other programs (MCP clients), read as they are, in the shape of hub.yaml.

What the hub has no use for is named in a warning, as other programs write these files. An entry
that the hub cannot use is no error of the file: it is left out, with its problems.

Main types: `ClientConfig` (a program's servers), `ClientServer` (one server in hub.yaml's
shape, its problems, and where its keys came from), `FoundServer` (the same, and its file).

Read in this order:
- `locations`: the files of each program, and what is found in them;
- `sections`: where the servers are in the files of each program, and their placeholders;
- `entries`: one server, in the spellings of all programs, and the hub's own entry;
- `secrets`: variables in the place of secrets.
"""
