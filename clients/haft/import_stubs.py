"""Loading msgspec for one command, which is over when it has printed: without what it need not bring.

Rules: called once, by the command line alone and before anything else imports msgspec; what is loaded
already stays as it is. It asks typing_extensions for what `typing` has had since Python 3.11, and that
loads `inspect` and what reads source code: a fifth of the whole command.
"""

from __future__ import annotations

import importlib
import sys


def load_msgspec() -> None:
    """Import it as if typing_extensions were not installed, which it can do without."""
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
