"""Paths and `file:` URIs: resolve symlinks, compare paths by component, parse and build URIs.

Pure: no await, no clock. The disk is only asked through the `LinkReader` that the caller passes
in; `hub.system` has the real disk, tests have a fake.

The same functions serve POSIX, macOS and Windows paths. The platform is a parameter (`Flavour`),
so that Windows rules can be tested on Linux.

Main types: `Flavour`, `LinkReader`, `CachedDisk`, `Entry`, `PathError`.

Read first `resolve.py` (`resolve`, `parts_of`, `is_inside`), then `file_uris.py`.
"""
