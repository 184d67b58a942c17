"""Notices to a session: a handle stopped, failed, asks or has printed.

`output_watcher` reads the output of handles with `notify`, by a `pattern_scanner`, and collects the
matches. `queues` keeps notices and delivers them to subscribers.
"""
