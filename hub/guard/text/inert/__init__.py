"""The parts of a command line that no program opens: they are left out before words are judged.

A command line is taken apart once (`CommandLine` in `sure_commands.py`) and is asked in several
ways which of its parts are inert. Each way returns the parts, and what to put in their places; a
doubt leaves a part as it is. Both ways to run a command count: a shell reads it, or it is split at
its spaces, and the first program gets all words.

Main types: `Replacement` (where a part starts and ends, and what is put there), `CommandLine`.

Read first `parts.py` (all the ways, one after the other), then `lines.py` (the lines of
here-documents), `signs.py` (slashes, remarks and wildcards), `words.py` (texts, patterns and
scripts).
"""
