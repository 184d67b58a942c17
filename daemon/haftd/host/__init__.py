"""Everything that is Linux: starting, signalling, terminals, the lock file, recovery."""
