"""What libraries bring along at their import and this daemon never uses: left out, to start sooner.

Rules: called once, before anything else imports them; the modules that use them know nothing of it, and
do the same without it, only later. What is left out here is for parts of a library that no module of
ours touches: structlog's tracebacks drawn by rich, whatever needs asyncio's loop, which cannot run in
here, and jsonrpcserver's own reader and server with the JSON schema that they check by.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

__all__ = ["leave_out_what_is_not_used"]


def leave_out_what_is_not_used() -> None:
    """Import the libraries whose import costs more than they are used for."""
    with _in_place_of("rich", None), _in_place_of("asyncio", ModuleType("asyncio")):
        importlib.import_module("structlog")
        if "jsonrpcserver" not in sys.modules:
            # Only modules of it are used; what the package itself does is importing all the others.
            spec = importlib.util.find_spec("jsonrpcserver")
            if spec is not None:
                sys.modules["jsonrpcserver"] = importlib.util.module_from_spec(spec)
        importlib.import_module("jsonrpcserver.async_dispatcher")


@contextmanager
def _in_place_of(name: str, stand_in: ModuleType | None) -> Iterator[None]:
    """Let an import of `name` get `stand_in`, or with `None` fail as if it were not installed."""
    there = sys.modules.get(name)
    if there is not None:
        yield
        return
    sys.modules[name] = stand_in  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
