"""haft: the blocking client, the client on trio, and the command line.

Names are loaded at first use, and nothing else is imported. In the program `haft` a SIGINT ends the process from here
on, without a traceback, until `haft.interrupts` handles it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from .client import Haft
    from .errors import (
        ConnectionLost,
        Declined,
        HaftError,
        InvalidAddress,
        NotRunning,
        NotUnicode,
        ProtocolFault,
        RemoteError,
        ReplyTimeout,
        StartFailed,
        Unreachable,
        VersionMismatch,
    )

__version__ = "0.1.0"

__all__ = [
    "ConnectionLost",
    "Declined",
    "Haft",
    "HaftError",
    "InvalidAddress",
    "NotRunning",
    "NotUnicode",
    "ProtocolFault",
    "RemoteError",
    "ReplyTimeout",
    "StartFailed",
    "Unreachable",
    "VersionMismatch",
    "__version__",
]


def _end_at_interrupts() -> None:
    """Have a SIGINT end the program `haft`, unless another handler than Python's is set."""
    # Built into the interpreter: `signal` makes enumerations, and takes milliseconds.
    import _signal  # type: ignore[import-not-found]
    import sys

    program = getattr(sys, "argv", None) or [""]
    if program[0].rpartition("/")[2] != "haft":
        return
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


_end_at_interrupts()

if not TYPE_CHECKING:

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(".client" if name == "Haft" else ".errors", __name__), name)
