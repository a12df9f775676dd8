"""The operating system: files, clocks, log, signals, memory and the worker thread.

Wraps what Python and the kernel offer, for the packages above. May use the disk, clocks and the
event loop, but knows nothing of sessions, children or calls: no decision about them is made here.

Main types: `Machine` (what decisions depend on, passed in so that tests can replace it), `OsDisk`
(the `LinkReader` of the path walk), `FileEdit` (a file being replaced atomically),
`Shutdown` (how long waits may take when the hub ends), `FairWorker` (slow work in a thread),
`Sealer` and `Signer` (texts that clients carry).

Read in this order: `machine`; `atomic_file`, `private_file`, `sealing` (files and what is in them);
`shutdown`, `tasks`, `log`, `this_process`; `connecting` (how HTTP clients connect).
"""
