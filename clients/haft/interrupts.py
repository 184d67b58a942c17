"""SIGINT in a process of haft: `KeyboardInterrupt`, but never at the exit, nor within an import,
which would leave half a module and may crash a C module."""

from __future__ import annotations

# `signal` makes enumerations of all signals: a thirtieth of a short command.
import _signal as signal  # type: ignore[import-not-found]
import os

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
_IMPORT = "<frozen importlib._bootstrap>"


def guard_imports() -> None:
    """Exit at a SIGINT within an import, unless the signal is ignored or has another handler."""
    # `haft` itself sets the default action in its program (`__init__`).
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, _interrupt)


def ignore_at_exit() -> None:
    """Ignore SIGINT from now on: the exit status is decided."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt(_: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
