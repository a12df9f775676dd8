"""What is known of servers that do not run: their last catalogs, in memory and on disk.

A list can be answered from here before a server runs. No call is judged by anything here: a call
starts its server, and is judged by what the running server lists. This package starts nothing.

Main types: `CatalogCache` (catalogs by server and principal), `KnownLists` (what the slots of one
pool know, and what has changed when a child is ready).

Reading order: `cache` (with a catalog as the content of a file), `lists`.
"""
