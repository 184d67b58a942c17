"""Find out whether a process waits for input, from the kernel's wait state alone.

`read_state` decides, from a `wait_snapshot` of processes. `thread_wait` decodes the system call
that a thread is blocked in (numbers in `syscalls`), `fd_peers` finds the other end of a pipe,
socket or terminal.
"""
