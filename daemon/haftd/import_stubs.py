"""Stub out unused imports of libraries, for a faster start.

Rules: the modules that use the libraries do not depend on the stubs. Of structlog rich is stubbed, which only draws
tracebacks, and asyncio, whose loop cannot run in this process; `rpc/jsonrpcserver` stubs for its own library.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec


def stub_unused_imports() -> None:
    """Import structlog with its costly, unused dependencies stubbed; called before any other import of structlog."""
    with stubbed("rich", None), stubbed("asyncio", empty_module("asyncio")):
        importlib.import_module("structlog")


def empty_module(name: str) -> ModuleSpec:
    """Return the specification of a module with nothing in it."""
    return ModuleSpec(name, None)


@contextmanager
def stubbed(name: str, stub: ModuleSpec | None) -> Iterator[None]:
    """Let an import of `name` get an unexecuted module of `stub`, or with None fail as if it were not installed.

    A module that is loaded already stays as it is."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        yield
        return
    sys.modules[name] = importlib.util.module_from_spec(stub) if stub else None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
