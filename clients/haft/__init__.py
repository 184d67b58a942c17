"""haft: the blocking client, the client on trio, and the command line.

Names are loaded at first use, and nothing else is imported: until `haft.__main__` runs, a SIGINT
ends in a traceback.
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


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(".client" if name == "Haft" else ".errors", __name__), name)
