"""The guard: decide whether the path-like arguments of a call stay inside the client's roots.

Pure: no await, no clock; the disk is only asked through a `LinkReader`. `decide` returns a verdict
for every call and never raises; every doubt is a refusal. Only `decide.py` can make an `Admitted`.
The guard is no sandbox: it judges text, and the child opens the file later.

Main types: `ToolGuard` (one tool's compiled schema and policy), `CallContext` (roots and disk of a
call), `Admitted` and `Refused` (the verdict), `Policy` (what the operator set).

Read first `decide.py`, then in the order of the work: `keys/` and `arguments.py` find the arguments
that can be paths (`PathCandidate`), `embedded_json.py` finds JSON in them; `text/` and
`candidate_texts.py` list the texts of each that are judged, `entered_folders.py` follows the `cd`
of a command; `local_paths.py` tells which are meant as paths of this machine; `containment.py`
follows those on the disk and compares them with the roots; `named_folders.py` finds where else a
relative value may start; `judge.py` puts this together, and canonical paths into a call.
`plain_paths.py` is the quick check for simple paths, `budget.py` limits the work. Then `policy.py`,
`own_files.py` (the hub's own files), `consent.py` (ask the user), `roots_hint.py` (tell models the
roots).
"""
