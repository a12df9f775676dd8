"""Confinement of child processes by the Linux kernel: Landlock, seccomp and capabilities.

A confined child opens only files that it is granted: its roots, what the operator adds, and what
its program needs to run. seccomp refuses system calls that reach other processes or the machine.
Only Linux can confine, and network access is not restricted. This package launches no child: it
turns a `LaunchPlan` into one whose first program is the `launcher`.

Main types: `FileGrants` (paths to read and write), `ConfinementStatus` (`Confined`, `Unconfined` or
`NotAsked`), `Program` (a command and the files that it needs), `Rule` (refused system calls).

Read in this order:
- `grants`: what a child is granted, and whether it is confined at all (pure);
- `program_files`: finds the files that a program needs;
- `confined_launch`: makes the launch plan and the child's private directories, and tells at the
  start what cannot be confined;
- `launcher` with `landlock`: the program that confines itself, drops capabilities, loads a seccomp
  filter and then becomes the child's command. These two import nothing that is slow to load;
- `seccomp_rules`: which system calls are refused; compiles the filter.
"""
