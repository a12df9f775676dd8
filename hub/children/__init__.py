"""Child MCP servers: start them, connect, shake hands, send calls, share and stop them.

A child is a launched process (stdio) or a remote server (streamable HTTP or the older SSE
transport). This package may not decide about paths or roots: a `ChildCall` is made only
of a call that the guard admitted. It knows its clients only through the protocols `Caller` and
`ChildUser`, and imports nothing from `hub.sessions`, `hub.calls` or `hub.server`.

Main types: `ChildPool` (all children, by `ChildKey`), `ChildSlot` (the pool's entry for one key),
`Child` (one connection and its owner task), `ChildCall` (one call at it), `ChildConnection` (the
transport below it), `ChildCallbacks` (the child's own requests and notifications).

Reading order:
- `slot`, `pool`: the key of a child, the pool, its limits; then `child`: the life of one child
- `known/`: what servers list that do not run
- `link`, `process/`, `remote/`: connections; `opener` opens them
- `handshake`, `listing`, `listen_streams`: what the hub asks a child at the start and later
- `clients`, `callbacks`, `asking/`: the client side of a child
- `child_call`: one call at a child, from its turn to its result
- `concurrency`, `circuit_breaker`, `failures`: limits and errors
"""
