"""The servers of MCP clients' configs, brought together in one hub.yaml.

Clients' files are only read. No secret gets into what is returned, unless it is asked for: a
variable of the environment stands in its place. What cannot be carried over has a reason.

Main types: `FoundServer` (a server as a client has it), `CarriedServer` (as hub.yaml has it, with
all the places it was found in), `LeftServer` (not carried over, and why).

Read in this order:
- `discovery`: the servers in the files of clients;
- `carrying`: what of them the hub can use, merged and with names of their own; the config's text;
- `secrets`: variables in the place of secrets.
"""
