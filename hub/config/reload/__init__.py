"""What a running hub takes over of a config that has changed, and what waits for its user.

Nothing is watched or applied here: `hub.config.watch` does that. Whoever can write the config can
have any command run. So where calls or children may write it, a change applies as far as it
tightens; the rest waits for `roots-hub reload`. What is not known to tighten counts as loosening.

Main types: `ConfigChange` (the config to take over, and what waits), `WritablePlace` (where calls
or children may write).

Read in this order:
- `tightening`: the keys in which two configs differ, and the split of a change; with it `orders`,
  which says of each key what is tighter, and `folders`, which says it of lists of folders;
- `writable`: whether the file lies where calls or children may write.
"""
