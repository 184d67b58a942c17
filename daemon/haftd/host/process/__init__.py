"""Identify processes.

`identity` names a process for good, `process_tag` and `rlimit_tag` its handle, `own_tag` the
daemon, `machine` the place, `ancestry` its relatives, `peer_process` the process behind a
connection. `usage` measures resources, `privacy` hides the daemon's memory.
"""
