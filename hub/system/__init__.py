"""The operating system: files, clocks, log, signals, memory and the worker thread.

Wraps what Python and the kernel offer, for the packages above. May use the disk, clocks and the
event loop, but knows nothing of sessions, children or calls: no decision about them is made here.

Main types: `Machine` (what decisions depend on, passed in so that tests can replace it), `OsDisk`
(the `LinkReader` of the path walk), `FileEdit` (a file being replaced atomically),
`Shutdown` (how long waits may take when the hub ends), `FairWorker` (slow work in a thread),
`Sealer` and `Signer` (texts that clients carry).

Read in this order:
- `machine`: what the guard asks the computer;
- `atomic_file`: replace a file as a whole, and detect changes (`Look`); `private_file`: secrets,
  small records that outlive the process, and caches; `sealing`: what secrets seal, and which ids
  are used up;
- `shutdown`, `tasks`: signals; tasks for many clients, and work in threads beside the event loop;
- `log`: the hub's own log on stderr;
- `this_process`: its limits and memory, and the socket that systemd listens on for the hub;
- `connecting`: how HTTP clients look names up and connect, and whose certificates are trusted.
"""
