"""The pool of all children: who shares which child, and which ends so that another may start.

A child is started once for each key, when the first call needs it, and ends when nobody has used it
for a while. How many may run is limited in all, for each session and for each principal. How a
child is started and spoken with is not decided here: the pool is given an `Opener`.

Main types: `ChildPool` (the children, by key), `ChildLimits` (which of them make room), `Opener`
(opens a connection to one).

Reading order: `limits`, `opener`, `pool`.
"""
