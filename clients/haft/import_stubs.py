"""A lighter import of msgspec for a command that ends once it has printed.

Rules: called once, by the command line alone, before any other import of msgspec. msgspec asks typing_extensions for
features that `typing` has since Python 3.11, which loads `inspect` and the parsers of source code: a fifth of the
whole command.
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
