"""Stub out unused imports of libraries, for a faster start.

Rules: called once, before any other import of these libraries; the modules that use the libraries do not
depend on the stubs. Stubbed are rich, which only draws structlog's tracebacks, asyncio, whose loop cannot run
in this process, and jsonrpcserver's package module, which imports an own server and JSON Schema.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

__all__ = ["stub_unused_imports"]


def stub_unused_imports() -> None:
    """Import the libraries with their costly, unused dependencies stubbed."""
    with _replaced("rich", None), _replaced("asyncio", ModuleType("asyncio")):
        importlib.import_module("structlog")
        if "jsonrpcserver" not in sys.modules:
            # Only submodules are used; the package module would import all the others.
            spec = importlib.util.find_spec("jsonrpcserver")
            if spec is not None:
                sys.modules["jsonrpcserver"] = importlib.util.module_from_spec(spec)
        importlib.import_module("jsonrpcserver.async_dispatcher")


@contextmanager
def _replaced(name: str, stub: ModuleType | None) -> Iterator[None]:
    """Let an import of `name` get `stub`, or with None fail as if `name` were not installed."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        yield
        return
    sys.modules[name] = stub  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
