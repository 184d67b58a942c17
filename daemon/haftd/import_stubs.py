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
    email, trio without a search for libpthread, and without TLS and international names until they
    are used, msgspec without typing_extensions.

    Call before any other import of these.
    """
    _import_structlog()
    _import_jsonschema()
    _import_trio()
    # Since Python 3.11 `typing` has all that it takes from there.
    with stubbed("typing_extensions", None):
        import msgspec  # noqa: F401


def _import_structlog() -> None:
    pickle = empty_module("pickle")
    setattr(pickle, "PicklingError", Exception)  # noqa: B010
    with contextlib.ExitStack() as stack:
        for stub in (empty_module("asyncio"), pickle):
            stack.enter_context(stubbed(stub.__name__, stub))
        for name in ("better_exceptions", "colorama", "greenlet", "rich", "twisted"):
            stack.enter_context(stubbed(name, None))
        import structlog  # noqa: F401


def _import_jsonschema() -> None:
    """Import jsonschema_rs, which would import eight modules of `email` for the date of its build."""
    utils = empty_module("email.utils")
    setattr(utils, "parsedate_to_datetime", lambda date: None)  # noqa: B010
    with stubbed("email", empty_module("email")), stubbed("email.utils", utils):
        import jsonschema_rs  # noqa: F401


def _import_trio() -> None:
    """Import trio; to find libpthread for thread names, `ctypes.util` would run ldconfig."""
    util = empty_module("ctypes.util")
    setattr(util, "find_library", "lib{}.so.0".format)  # noqa: B010
    if hasattr(ctypes, "util"):
        import trio

        return
    ctypes.util = util
    try:
        with contextlib.ExitStack() as stack:
            for stub in (util, DeferredModule("ssl"), DeferredModule("idna")):
                stack.enter_context(stubbed(stub.__name__, stub))
            import trio  # noqa: F401
    finally:
        del ctypes.util


class DeferredModule(ModuleType):
    """In place of a module that a library names at its import and uses later: loads it at the first
    use of an attribute."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


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
