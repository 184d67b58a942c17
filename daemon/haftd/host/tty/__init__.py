"""Pseudo-terminals: `pseudo_terminal` opens and queries them, `hangup` waits on one without a process."""
