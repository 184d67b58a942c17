"""Everything that is Linux: processes, terminals, locks, recovery.

`launch` starts programs, `process` identifies processes, `tree` signals and kills those of a handle
(with `cgroup` where delegated), `input_state` finds out from the kernel which processes wait for
input, `tty` is for pseudo-terminals, `recovery` kills the processes that a dead daemon left,
`files` has the runtime and state folders. `pump` moves bytes between descriptors and the daemon,
`timer` wakes the loop in less than a millisecond, `descriptors` keeps a reserve of file
descriptors, `sock_diag` asks the kernel about a socket.
"""
