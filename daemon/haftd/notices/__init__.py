"""Notices to a session: a handle stopped, failed, asks or has printed.

`output_watcher` collects the matches of a `pattern_scanner` in handles' output; `queues` keeps
notices and delivers them to subscribers.
"""
