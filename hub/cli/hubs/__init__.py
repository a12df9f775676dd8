"""Shared hubs on the command line: attach a client, run the hub, ask running hubs.

`attach` is started once for each session of a client, and is done before a hub's modules could be
loaded. So it imports nothing but `hub.attach`. The other modules are loaded when they are needed:
where a client is not attached, a hub is started, or somebody asks.

Read in this order:
- `attach`: `roots-hub attach` and `wrap --shared`, as far as they need no hub in this process;
- `shared_hub`: the program of a hub that was started for attached clients;
- `commands`: the subcommands `status`, `reload`, `stop`.
"""
