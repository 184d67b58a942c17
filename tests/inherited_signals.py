"""The signals of a terminal, as a program started at one has them."""

from __future__ import annotations

import signal


def accept_terminal_signals() -> None:
    """Undo that SIGINT and SIGHUP are ignored, as `nohup` and `&` leave them, and that SIGWINCH is
    blocked, as `perf` leaves it: every child would inherit that."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGWINCH})
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
