"""Recovery after a crash of the daemon.

`record` is the format of the `journal` of started processes. `recovery` kills the processes that a dead daemon left:
`ownership` decides which processes may be killed, `kill_set` holds them by pidfd. `guardian` is the process that does
so where no service manager restarts the daemon.
"""
