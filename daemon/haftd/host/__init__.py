"""Everything that is Linux: starting, signalling, terminals, the lock file, recovery.

A launch: `program` `gate` `ends` `limits` `launch` `pump` `tty`; a terminal that no process has open: `hangup`.
Who a process is: `identity` `mark` `brand` `family`, and which one connects: `connected`.
A handle's processes: `group` `cgroup` `reaper` `remains`, and what they use: `usage`.
Whether one reads: `reads`, by `looks` at its processes, at `waits` (by the numbers in `syscalls`) and
`peers` (with `sockdiag`), with `alarm` for a look in less than a millisecond.
After a crash: `record` `journal` `claims` `targets` `recover` `guardian`.
What others may see of this one: `privacy`.
What is left to open: `descriptors`. The place: `folder` `spoolfolder` `idlog` `lockfile`.
"""
