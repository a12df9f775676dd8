"""Child processes: start them on pipes, and end each with all processes that it has started.

On Linux each child has a parent process of its own, a subreaper. A fork server forks the subreapers
and outlives the hub, to end what is left if the hub is killed. Elsewhere a watchdog program does
that, and finds processes by their marks. This package does not read messages: it moves lines of
bytes and signals. `watchdog`, `subreaper` and `forkserver` run outside the hub's process: apart
from each other they import nothing of the hub, and nothing that is slow to load. So no `__init__`
here or above may have imports.

Main types: `Process` (one child process with its pipes), `ProcessTree` (a child process and its
descendants), `ProcessSupervisor` (all process trees of the hub), `Mark` (tells whose a process is).

Reading order:
- `process`, `private_folders`: read and write a process's lines, log its stderr, notice its end
- `process_tree`: mark processes, end them, reap orphans
- `watchdog`, `subreaper`, `forkserver`: the programs outside the hub's process
- `supervised`: start a process, and the hub's side of those programs
"""
