"""`roots-hub doctor`: what is wrong on this machine, each with the command that mends it.

Looks at the config, the programs that it names, the clients that have the hub, and the hub's own
directories. Changes nothing, and starts nothing but `node --version`, and with `--connect` the
servers. A `Finding` is a problem (exit code 1) or a warning. What is fine is not told.

Read in this order:
- `command`: the subcommand, its table and its JSON;
- `findings`: what a finding is;
- `config_checks`, `client_checks`, `machine_checks`, `server_checks`: what is looked at.
"""
