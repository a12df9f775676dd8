"""The hub's entry in the configs of MCP clients: put in, and taken out again.

Only the text of the entry changes: comments, layout and the order of keys stay. Every new text is
parsed, and must have the values of the old one and the change, nothing else; if not, the change is
refused. Nothing here reads or writes a client's file; the record is in the state directory.

Main types: `Installation` (what was done to one file, so that it can be undone).

Read in this order:
- `json_text`, and `toml` and `yaml_text` of `source`: a member of a section, in and out;
- `changes`: what installing and uninstalling make of a text, and the record of what is installed;
- `own_entry`: the command that starts the hub, in the words of each client.
"""
