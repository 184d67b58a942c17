"""Identify processes: `identity`, the tags `process_tag`, `rlimit_tag` (a `handle_tag` is both) and
`own_tag`, `machine`, `ancestry`, `peer_process` of a connection. Also: `status`, `usage` of
resources, `privacy` of the daemon's memory."""
