"""Stubs for libraries' unused imports, for a faster start."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType


def stub_unused_imports() -> None:
    """Import structlog without asyncio and the libraries that it supports, jsonschema_rs without
    email, and trio without a search for libpthread.

    Call before any other import of these.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(stubbed("asyncio", empty_module("asyncio")))
        for name in ("better_exceptions", "colorama", "greenlet", "rich", "twisted"):
            stack.enter_context(stubbed(name, None))
        importlib.import_module("structlog")
    _import_jsonschema()
    _import_trio()


def _import_jsonschema() -> None:
    """Import jsonschema_rs, which would import eight modules of `email` for the date of its build."""
    utils = empty_module("email.utils")
    setattr(utils, "parsedate_to_datetime", lambda date: None)  # noqa: B010
    with stubbed("email", empty_module("email")), stubbed("email.utils", utils):
        importlib.import_module("jsonschema_rs")


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


@contextlib.contextmanager
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
