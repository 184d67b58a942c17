"""Identify processes.

`identity` names a process for good, `process_tag` and `rlimit_tag` its handle (`handle_tag` has
both), `own_tag` the daemon, `status` reads its state, `machine` the place, `ancestry` its relatives, `peer_process` the process behind a
connection. `usage` measures resources, `privacy` hides the daemon's memory.
"""
