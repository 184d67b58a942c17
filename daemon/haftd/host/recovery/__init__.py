"""Recovery after a crash of the daemon.

`record` is the format of the `journal` of started processes. `recovery` kills those that a dead
daemon left: `ownership` decides which, `kill_set` holds them by pidfd. `guardian` is the process
that recovers where no service manager restarts the daemon.
"""
