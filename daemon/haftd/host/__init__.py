"""Everything that is Linux: processes, terminals, locks, recovery.

`launch` starts programs, `process` identifies processes, `tree` signals and kills a handle's
(`cgroup` where delegated), `limit_group` has the kernel count for limits, `input_state` finds
processes that wait for input. `tty`: pseudo-terminals; `recovery` after a crash; `files`: runtime
and state folders. I/O: `pump`, `readiness`, `timer`, `descriptors`, `priority`,
`sock_diag`.
"""
