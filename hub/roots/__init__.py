"""Roots: the directories and files that a client shares, and which roots apply to its calls.

Pure: no await, no clock. The disk is only asked through the `LinkReader` that the caller passes
in. `state.py` is a state machine: events in, a new state and effects out. `hub.sessions` feeds
the events and performs the effects.

Main types: `Root`, `RootSet`, `Announcement` (a parsed `roots/list` result), `State`,
`EffectiveRoots` (what calls are judged against), `RootPresence` (are the roots still in place).

Read first `roots.py` (parse and compare roots; which of them were deleted or replaced), then
`state.py` (when a client is asked) and `effective.py` (client's roots, fallback and ceiling
combined; why none is in force).
"""
