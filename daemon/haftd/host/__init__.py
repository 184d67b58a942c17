"""Everything that is Linux.

Processes: `launch`, `process` (identity), `tree` (a handle's processes), `cgroup`, `limit_group`,
`priority`, `input_state` (processes that wait for input), `recovery` after a crash. Terminals:
`tty`. Runtime and state folders: `files`. I/O: `pump`, `readiness`, `timer`, `clock`,
`descriptors`, `sock_diag`.
"""
