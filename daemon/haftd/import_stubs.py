"""Stubs for libraries' unused imports, for a faster start."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def stub_unused_imports() -> None:
    """Import structlog without rich (which draws tracebacks) and asyncio, and trio without a search
    for libpthread.

    Call before any other import of structlog and trio.
    """
    with stubbed("rich", None), stubbed("asyncio", empty_module("asyncio")):
        importlib.import_module("structlog")
    _import_trio()


def _import_trio() -> None:
    """Import trio; to find libpthread for thread names, `ctypes.util` would run ldconfig."""
    util = empty_module("ctypes.util")
    setattr(util, "find_library", "lib{}.so.0".format)  # noqa: B010
    if hasattr(ctypes, "util"):
        import trio

        return
    ctypes.util = util
    try:
        with stubbed("ctypes.util", util):
            import trio  # noqa: F401
    finally:
        del ctypes.util


def empty_module(name: str) -> ModuleType:
    return ModuleType(name)


def unexecuted_package(name: str) -> ModuleType | None:
    """Return a package whose submodules can be imported without its code."""
    spec = importlib.util.find_spec(name)
    return None if spec is None else importlib.util.module_from_spec(spec)


@contextmanager
def stubbed(name: str, stub: ModuleType | None) -> Iterator[None]:
    """Replace imports of `name` by `stub`; without `stub` they fail."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        yield
        return
    sys.modules[name] = stub  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
