"""Lighter import of msgspec, for the command line; called before any other import of msgspec.

msgspec imports typing_extensions, which loads `inspect` and source parsers, a fifth of a command's
time; `typing` suffices since Python 3.11.
"""

from __future__ import annotations

import importlib
import sys


def load_msgspec() -> None:
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
