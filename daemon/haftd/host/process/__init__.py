"""Identify processes.

`identity` names a process for good, `process_tag` and `rlimit_tag` name the handle that the process belongs to,
`ancestry` the parents and children, `peer_process` the process at the other end of a connection, `usage` the
resources in use. `privacy` keeps other processes from reading the daemon's memory.
"""
