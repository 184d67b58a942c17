"""Detect a process that waits for input, from the kernel's wait state.

`read_state` decides, from a `wait_snapshot` of processes. `thread_wait` decodes the system call
that blocks a thread (numbers in `syscalls`), `fd_peers` finds the other end of a pipe, socket or
terminal.
"""
