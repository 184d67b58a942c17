"""The terminal library, and what it asks us for.

Rules:

- It is loaded with the first screen that needs it: `load` takes a quarter of a second and may run
  in a thread. It leaves nothing that is slow the first time.
- `screen`, `scratch`, `paint` and `encoders` alone know what is in it.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from .encoders import CELL

__all__ = ["hooks", "is_loaded", "is_loading", "load"]

_core: ModuleType | None = None
_hooks: dict[str, Any] = {}
_has_begun = False
_is_warm = False
_loading = threading.RLock()


def is_loading() -> bool:
    """Say whether somebody loads the library, or has loaded it."""
    return _has_begun


def is_loaded() -> bool:
    """Say whether a screen can be used without loading anything."""
    return _is_warm


def load() -> ModuleType:
    """Load the terminal library; blocks a quarter of a second the first time."""
    global _core, _has_begun, _is_warm
    _has_begun = True
    if _core is not None and _is_warm:
        return _core
    with _loading:
        if _core is None:
            import pyghostty.core

            _core = pyghostty.core
            _warm_up()
            _is_warm = True
        return _core


def _warm_up() -> None:
    """Use all of it once: half of the time goes into the first use of each function."""
    from .keys import KeyPress
    from .scratch import Scratch
    from .screen import Screen

    scratch = Screen(2, 8, lambda reply: None)
    scratch.feed(b"\x1b]0;x\x07\x1b[6n")
    scratch.resize(3, 9)
    scratch.snapshot()
    scratch.encode_paste("x")
    scratch.encode_key(KeyPress("Up"))
    scratch.paint()
    scratch.close()
    drawn = Scratch(2, 8, history=4096)
    drawn.feed(b"x")
    drawn.around_cursor()
    drawn.close()


def hooks() -> dict[str, Any]:
    """What the library asks us for to answer the program; the same for all terminals."""
    core = load()
    lib, ffi = core.lib, core.ffi
    if _hooks:
        return _hooks

    def size(terminal: Any, _: Any, out: Any) -> bool:
        told = ffi.new("uint16_t[2]")
        lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_ROWS, told)
        lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_COLS, told + 1)
        out.rows, out.columns = told
        out.cell_width, out.cell_height = CELL
        return True

    def scheme(_: Any, __: Any, out: Any) -> bool:
        out[0] = lib.GHOSTTY_COLOR_SCHEME_DARK
        return True

    _hooks["SIZE"] = ffi.callback("GhosttyTerminalSizeFn", size)
    _hooks["COLOR_SCHEME"] = ffi.callback("GhosttyTerminalColorSchemeFn", scheme)
    return _hooks
