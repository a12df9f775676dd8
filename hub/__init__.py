"""roots-hub: one MCP endpoint in front of many MCP servers (children).

A client connects, tells its roots (its folders) and sees one merged catalog of tools, resources and
prompts. No call whose path arguments leave the roots reaches a child.

Packages, from the entry point down; each imports only what is below it:
- `cli` (the command line), `app` (builds a running hub), `server` (client connections),
- `calls` (one call from request to response), `config` (hub.yaml), `sessions` (per-client state),
- `children` (child servers), `confinement` (Landlock and seccomp), `attach` (how a client finds its
  shared hub), `audit` (the log of calls), `specs` (checked settings), `usage` (limits of
  principals), `logins` (OAuth at remote servers), `secrets`,
- `guard` (is a call allowed?), `jsonrpc`, `catalog` (merged listings), `launch` (argv and
  environment of a child), `file_server` (the embedded child),
- `roots`, `protocol`, `system` (the operating system), `paths`, `legible`, `errors`, `values`.
"""

__version__ = "0.1.0"
