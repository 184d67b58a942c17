"""Everything that is Linux: processes, terminals, locks, recovery.

`launch` starts programs, `process` identifies processes, `tree` signals and kills a handle's
(`cgroup` where delegated), `limit_group` has the kernel count for limits, `input_state` finds which
processes wait for input, `tty` is for pseudo-terminals, `recovery` kills a dead daemon's processes,
`files` has the runtime and state folders, `pump` moves bytes, `readiness` calls back for readable
descriptors, `timer` resolves below a millisecond,
`late_event` is made when awaited, `descriptors` reserves descriptors, `priority` puts the daemon
before its handles, `sock_diag` queries sockets.
"""
