"""Recovery after a crash of the daemon.

`record` is the format of the `journal` of started processes. `recovery` kills those left:
`ownership` decides which, `kill_set` holds them by pidfd. `guardian` is the process that recovers
without a service manager.
"""
