"""Everything that is Linux: processes, terminals, locks, recovery.

`launch` starts programs, `process` identifies processes, `tree` signals and kills those of a handle
(with `cgroup` where delegated), `limit_group` lets the kernel count for limits, `input_state` asks the kernel which processes wait for input, `tty`
is for pseudo-terminals, `recovery` kills the processes of a dead daemon, `files` has the runtime
and state folders, `pump` moves bytes, `timer` wakes the loop in less than a millisecond, `late_event` is an event made when awaited,
`descriptors` reserves descriptors, `priority` puts the daemon before its handles, `sock_diag` queries sockets.
"""
