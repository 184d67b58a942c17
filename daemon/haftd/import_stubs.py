"""Stubs for libraries' unused imports, for a faster start."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

_DTLS = ("DTLSChannel", "DTLSChannelStatistics", "DTLSEndpoint")
"""Classes that trio takes from `trio._dtls`."""


def stub_unused_imports() -> None:
    """Import structlog without asyncio and the libraries that it supports, jsonschema_rs without
    email, trio without a search for libpthread, and without TLS, DTLS and international names until
    they are used, msgspec without typing_extensions.

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
    util, dtls = empty_module("ctypes.util"), empty_module("trio._dtls")
    setattr(util, "find_library", "lib{}.so.0".format)  # noqa: B010
    for name in _DTLS:
        setattr(dtls, name, _Unloaded)
    if hasattr(ctypes, "util"):
        import trio

        return
    ctypes.util = util
    try:
        with contextlib.ExitStack() as stack:
            for stub in (util, dtls, DeferredModule("ssl"), DeferredModule("idna")):
                stack.enter_context(stubbed(stub.__name__, stub))
            import trio
    finally:
        del ctypes.util
    if vars(trio).get("DTLSEndpoint") is _Unloaded:
        _defer(trio, "trio._dtls", _DTLS)


class _Unloaded:
    """In place of a class that a package takes from a stubbed module at its import."""


def _defer(package: ModuleType, module: str, names: Sequence[str]) -> None:
    """Have `package` import `names` from `module` when one is used."""
    for name in names:
        delattr(package, name)

    def load(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        loaded = importlib.import_module(module)
        for each in names:
            setattr(package, each, getattr(loaded, each))
        return getattr(loaded, name)

    setattr(package, "__getattr__", load)  # noqa: B010


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
