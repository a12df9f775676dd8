"""Attaching: what a client's own process does to be served by the user's shared hub.

`roots-hub attach` is a small process that finds or starts the hub, hands its stdin and stdout over,
and then only waits. So the modules here import a few parts of the standard library that load fast
and nothing else of the hub, and there are no Structs. The hub's side is `server.attached`.

Main types: `RuntimeDirectory` and `HubPlace` (where a hub's socket, secret and locks are),
`FrameReader` (what comes over the connection).

Read in this order:
- `runtime_directory`: the private directory, and the names in it;
- `frames`: what both sides send, the client's `hello` first, and who is at the other end;
- `lifeline`: the client's side of being attached, and asking a hub for its status, to reload or to
  stop; `start`: start the hub, only once.
"""
