"""Tool schemas and argument names: which arguments of a tool can be paths, and of which kind.

Pure: no await, no clock, no disk. The answer depends only on the tool's schema, the words in its
name, argument names and descriptions, and the operator's overrides. Only the functions at the end
of `nodes.py` look at a call: at the members of an object, most of which no schema declares.

Main types: `Kind` (how the values of an argument are judged), `ArgumentNode` (one place in a tool's
arguments, compiled from the schema).

Read first `vocabulary.py` (`Kind`, and the words of names), then `key_words.py` (the kind that a
name tells), `descriptions.py` (what the phrases of a description tell), `nodes.py`
(`ArgumentNode`), `neighbours.py` (what the tool's name and the arguments around one tell), and
`schema.py` (`compile_schema`: all of these together).
"""
