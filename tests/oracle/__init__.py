"""Holds what the guard admits against the kernel: no admitted value may reach a file outside.

The other properties of the guard compare two of its own ways with each other, so a mistake that
both make passes them. Here nothing of the guard says what is right. A random tree is planted
(`trees`), a way to a file outside of the roots is spelled in some odd manner (`spellings`) and
given to the guard under keys of every kind (`keys`). What the guard admits is then opened as real
servers open such values: by Python's library (`openers`), by Node (`node`) and by shells
(`shells`). What no guard can promise is listed, with the reasons, in `promises`.

`search` puts the parts together; `python -m tests.oracle [SECONDS]` lists what escapes, by classes.
"""
