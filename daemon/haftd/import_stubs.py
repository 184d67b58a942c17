"""Stubs for unused imports of libraries, for a faster start."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec


def stub_unused_imports() -> None:
    """Import structlog without rich (which draws tracebacks) and asyncio.

    Call before any other import of structlog.
    """
    with stubbed("rich", None), stubbed("asyncio", empty_module("asyncio")):
        importlib.import_module("structlog")


def empty_module(name: str) -> ModuleSpec:
    return ModuleSpec(name, None)


@contextmanager
def stubbed(name: str, stub: ModuleSpec | None) -> Iterator[None]:
    """Replace imports of `name` by an unexecuted module of `stub`; without `stub` they fail."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        yield
        return
    sys.modules[name] = importlib.util.module_from_spec(stub) if stub else None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
