"""Text analysis: every way in which some child may read a string as a path, list or command.

Pure: no await, no clock, no disk. These modules list readings and split text; they never decide.
`candidate_texts.py` puts them together. The time is limited: what has too many readings raises
`PathError`.

Main types: `Reader` (a child's environment and platform, and how to split), `Readings` (each
reading, and how it came about).

Read first `readings.py` (decode, expand, split: one path or a list), then `shell.py` (take commands
apart as shells do), `sure_commands.py` (what each shell takes apart in the same way), `printed.py`
(what `$(...)` prints, and what runs a printed text), `code.py` (what code and filters make of
constants), `emptiness.py` (what may be nothing, so that `cd` goes home), `expansion.py` (variables,
braces and wildcards), `assignments.py` (variables that commands set), `uris.py` (URIs of this
machine and of others), `inert/` (the parts of a command that no program opens), `commands.py` (the
words of commands that can be paths), `programs.py` (what programs make of their words),
`containers.py` (commands that start containers), `prose.py` (sentences, YAML and code are no lists
of paths), `names.py` (file names in a text without path signs, and in patches), `overlong.py`
(values longer than any path, and paths of roots).
"""
