"""Tool schemas and argument names: which arguments of a tool can be paths, and of which kind.

Pure: no await, no clock, no disk. The answer depends only on the tool's schema, the words in its
name, argument names and descriptions, and the operator's overrides; never on a call's values.

Main types: `Kind` (how the values of an argument are judged), `ArgumentNode` (one place in a tool's
arguments, compiled from the schema).

Read first `vocabulary.py` (`Kind`, and the word lists), then `key_words.py` (the kind that a name
tells), `descriptions.py` (the kind that a description tells), `nodes.py` (`ArgumentNode`), and
`schema.py` (`compile_schema`: schema, descriptions and names together).
"""
