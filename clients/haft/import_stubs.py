"""Lighter imports of argparse and msgspec, for the command line; called before any other import of
them.

Without gettext, which loads `locale` and seeks catalogues that no system has, and without
typing_extensions, which takes a fifth of a command's time; `typing` suffices since Python 3.11.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from typing import Any


def load_argparse() -> None:
    if "argparse" in sys.modules or "gettext" in sys.modules:
        return
    untranslated: Any = type(sys)("gettext")
    untranslated.gettext = lambda text: text
    untranslated.ngettext = lambda one, many, count: one if count == 1 else many
    sys.modules["gettext"] = untranslated
    try:
        import argparse  # noqa: F401
    finally:
        del sys.modules["gettext"]


def load_msgspec() -> None:
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
