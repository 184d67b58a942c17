"""What the daemon was told.

`options` on its command line and by its environment; `settings` in its files, of which `answering` is a
table of its own; `values` reads single ones, `loopback` says whether an address is ours.
"""
