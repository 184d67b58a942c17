"""Identify processes.

`identity` names a process for good, `process_tag` and `rlimit_tag` its handle, `own_tag` the daemon, `machine` where they run, `ancestry` its
relatives, `peer_process` the process behind a connection. `usage` measures resources, `privacy`
closes the daemon's memory to other processes.
"""
