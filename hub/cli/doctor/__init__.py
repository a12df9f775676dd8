"""`roots-hub doctor`: what is wrong on this machine, each with the command or edit that mends it.

Nothing is changed and nothing is asked over the network. No server is started, unless the user says
`--connect` and names the config. Other programs (`node --version`) get one second. No value of a
variable and no token is shown. A check that fails itself is a finding as well: the others go on.

Main types: `Scene` (what the checks look at), and `Finding`, which is in `hub.cli`.

Read in this order:
- `scene`: what the checks look at, and what they ask of files; `command`: the subcommand, its
  checks in their order, and `--connect`;
- `machine` (versions, limits, locale, proxies, confinement, directories, caches, disk), and
  `running_hubs`;
- `programs`: what is not on the PATH or too old, and how to get it;
- `configs`: whether the hub's configs load, their modes, and the configs of clients;
- `settings`: what is wrong with a config that loads (folders, audit file, port, tokens).
"""
