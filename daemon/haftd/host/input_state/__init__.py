"""Detect a process that waits for input, from the kernel's wait state: `read_state` decides by a
`wait_snapshot`, made of each `thread_wait` (numbers of system calls: `syscalls`), the
`fd_peers` and `kept_files`, which it reads twice."""
