"""The terminal library; modules that call it register a warm-up with `used_first`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .encoders import CELL

_core: ModuleType | None = None
_hooks: dict[str, Any] = {}
_first_uses: list[Callable[[], None]] = []
_has_begun = False
_is_warm = False
_loading = threading.RLock()


def is_loading() -> bool:
    return _has_begun


def is_loaded() -> bool:
    """True if `load` returns at once."""
    return _is_warm


def load() -> ModuleType:
    """Load the library; blocks a quarter of a second the first time."""
    global _core, _has_begun, _is_warm
    _has_begun = True
    if _core is not None and _is_warm:
        return _core
    with _loading:
        if _core is None:
            import pyghostty.core

            _core = pyghostty.core
            for use in _first_uses:
                use()
            _is_warm = True
        return _core


def used_first(use: Callable[[], None]) -> Callable[[], None]:
    """Run `use` within `load`: half of the time is each function's first call."""
    _first_uses.append(use)
    return use


def hooks() -> dict[str, Any]:
    """Return the callbacks for replies to the process."""
    core = load()
    lib, ffi = core.lib, core.ffi
    if _hooks:
        return _hooks

    def size(terminal: Any, _: Any, out: Any) -> bool:
        size = ffi.new("uint16_t[2]")
        lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_ROWS, size)
        lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_COLS, size + 1)
        out.rows, out.columns = size
        out.cell_width, out.cell_height = CELL
        return True

    def scheme(_: Any, __: Any, out: Any) -> bool:
        out[0] = lib.GHOSTTY_COLOR_SCHEME_DARK
        return True

    _hooks["SIZE"] = ffi.callback("GhosttyTerminalSizeFn", size)
    _hooks["COLOR_SCHEME"] = ffi.callback("GhosttyTerminalColorSchemeFn", scheme)
    return _hooks
