"""`roots-hub check`, `plan` and `schema`: look at a config without serving it.

`check` starts servers only with `--connect`; `plan` and `schema` start nothing.

Read in this order:
- `command` (`check`): what is found, as text and as JSON, with `problems` (what is wrong with a
  config that loads), `scripts` (whether the system runs a program that is a script), `secrets`
  (what is wrong with secrets) and `trials` (what `--connect` and `--confine` try out);
- `plans` (`plan`, `schema`): how a config's servers are launched for a client without roots.
"""
