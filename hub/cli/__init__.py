"""The command line `roots-hub`: parses arguments, runs one subcommand, returns an exit code.

Exit codes are chosen here. Nothing but `hub.__main__` imports this package. No decisions are made
here: a subcommand loads the config and asks `app`, `config`, `guard` or `confinement`.

Each module has a function `register` that adds its subcommands to the parser and sets `perform`
for each: a function from the parsed options to the exit code. `command_line` imports only one.

Read in this order:
- `main`: the entry point; `command_line`: the parser, error messages and exit codes;
- `options`: what the subcommands share (`--config`, `--root`), and files of logs;
- `hubs`: clients that attach to a shared hub, which is a process of its own;
- `run` (`run`, `attach`, `wrap`) with `served` (what it tells);
- `explain` (whether the guard admits a call, and why) with `explained_call` (what it is judged by);
- `terminal`: what is wrong, how it is shown, and what people are asked;
- `check`: `check`, `plan`, `schema`;
- `tools` (`tools`, `call`), which use the hub through `own_client`; `token`; `logins`;
- `roots`: `detect`, `list`, `contains`, `add`, `remove`, `rename`;
- `setup`: `init`, `import`, `install`, `uninstall`; `doctor`: what is wrong here.
"""
