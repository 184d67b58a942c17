"""Pseudo-terminals: `pseudo_terminal` opens and queries them, `hangup` waits on one that no process
has open."""
