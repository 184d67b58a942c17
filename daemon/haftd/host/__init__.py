"""Everything that is Linux: starting, signalling, terminals, the lock file, recovery.

`launch`: start a program.
`process`: identify a process, and find the handle that the process belongs to.
`tree`: the processes of one handle, signalled and ended together, with `cgroup` where one is delegated.
`input_state`: find out from the kernel which processes wait for input.
`tty`: pseudo-terminals.
`recovery`: the journal of started processes, and the end of all that a dead daemon left.
`files`: the runtime folder and the files of the state folder.
`pump` moves bytes between descriptors and the daemon, `timer` wakes the loop in less than a millisecond,
`descriptors` keeps a reserve of file descriptors, `sock_diag` asks the kernel about a socket.
"""
