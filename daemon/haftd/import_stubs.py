"""Stubs for libraries' unused imports, for a faster start."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

_DTLS = ("DTLSChannel", "DTLSChannelStatistics", "DTLSEndpoint")
"""Classes that trio takes from `trio._dtls`."""

_OF_LOGS = ("better_exceptions", "colorama", "rich")
"""Libraries by which structlog's output would differ between machines."""


def stub_unused_imports() -> None:
    """Import structlog, jsonschema_rs, minijinja, uuid, trio and msgspec without the imports of
    theirs that haftd does not use.

    Call before any other import of these.
    """
    _import_structlog()
    _import_jsonschema()
    _import_minijinja()
    with _without_platform():
        import uuid  # noqa: F401

        _import_trio()
    # Since Python 3.11 `typing` has all that it takes from there.
    with stubbed("typing_extensions", None):
        import msgspec  # noqa: F401


@contextlib.contextmanager
def _without_platform() -> Iterator[None]:
    """Answer the two questions of attrs and uuid to `platform`, which compiles nine expressions."""
    platform = DeferredModule("platform")
    names: dict[str, object] = {
        "python_implementation": lambda: {"cpython": "CPython", "pypy": "PyPy"}.get(
            sys.implementation.name, sys.implementation.name
        ),
        "system": lambda: os.uname().sysname,
    }
    with stubbed("platform", platform), _with_names(platform, names):
        yield


def _import_structlog() -> None:
    """Import structlog; of `dev`, `stdlib`, `threadlocal` and `tracebacks`, which make dataclasses
    and import `platform`, only three names are needed, for the defaults."""
    pickle = empty_module("pickle")
    setattr(pickle, "PicklingError", Exception)  # noqa: B010
    dev, tracebacks = _structlog_module("dev"), _structlog_module("tracebacks")
    defaults: dict[ModuleType, dict[str, object]] = {
        dev: {
            "ConsoleRenderer": _made_when_called(dev, "ConsoleRenderer"),
            "_has_colors": True,
            "set_exc_info": lambda *args: dev.set_exc_info(*args),
        },
        tracebacks: {
            "ExceptionDictTransformer": _made_when_called(tracebacks, "ExceptionDictTransformer")
        },
    }
    with contextlib.ExitStack() as stack:
        for stub in (empty_module("asyncio"), pickle, *defaults):
            stack.enter_context(stubbed(stub.__name__, stub))
        for name in ("stdlib", "threadlocal"):
            stack.enter_context(stubbed(f"structlog.{name}", _structlog_module(name)))
        for name in ("greenlet", "twisted", *_OF_LOGS):
            stack.enter_context(stubbed(name, None))
        for module, names in defaults.items():
            stack.enter_context(_with_names(module, names))
        import structlog  # noqa: F401


def _structlog_module(name: str) -> DeferredModule:
    return DeferredModule(f"structlog.{name}", without=_OF_LOGS)


def _made_when_called(module: ModuleType, name: str) -> Callable[..., object]:
    """Return a stand-in of a class with callable instances: a call takes the class from `module`
    and makes an instance."""
    return lambda *args, **kwargs: lambda *call: getattr(module, name)(*args, **kwargs)(*call)


@contextlib.contextmanager
def _with_names(module: ModuleType, names: Mapping[str, object]) -> Iterator[None]:
    vars(module).update(names)
    try:
        yield
    finally:
        for name in names:
            delattr(module, name)


def _import_jsonschema() -> None:
    """Import jsonschema_rs without eight modules of `email`, for the date of its build."""
    utils = empty_module("email.utils")
    setattr(utils, "parsedate_to_datetime", lambda date: None)  # noqa: B010
    with stubbed("email", empty_module("email")), stubbed("email.utils", utils):
        import jsonschema_rs  # noqa: F401


def _import_minijinja() -> None:
    """Import minijinja without the names of 2,231 characters of HTML, beside the function that
    escapes it."""
    html, loaded = empty_module("html"), DeferredModule("html")
    setattr(html, "escape", lambda text: loaded.escape(text))  # noqa: B010
    with stubbed("html", html):
        import minijinja  # noqa: F401


def _import_trio() -> None:
    """Import trio without TLS, DTLS and international names until they are used; to find libpthread
    for thread names, `ctypes.util` would run ldconfig."""
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
    """Stand-in of a class that a package takes from a stubbed module at its import."""


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
    """Stand-in of a module that a library names at its import and uses later: loads the module at
    the first use of an attribute, `without` some of its imports."""

    def __init__(self, name: str, without: Sequence[str] = ()) -> None:
        super().__init__(name)
        self.__without = without

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            if name.startswith("__"):  # asked by the import system
                raise AttributeError(name)
            # Another version of a library that needs more: the module takes this one's place.
            del sys.modules[self.__name__]
        with contextlib.ExitStack() as stack:
            for each in self.__without:
                stack.enter_context(stubbed(each, None))
            return getattr(importlib.import_module(self.__name__), name)


def empty_module(name: str) -> ModuleType:
    return ModuleType(name)


def unexecuted_package(name: str) -> ModuleType | None:
    """Return a package whose submodules can be imported without its code; None if it is not installed."""
    spec = importlib.util.find_spec(name)
    return None if spec is None else importlib.util.module_from_spec(spec)


@contextlib.contextmanager
def stubbed(name: str, stub: ModuleType | None) -> Iterator[None]:
    """Replace imports of `name` by `stub`; without `stub` they fail."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = stub  # type: ignore[assignment]
    try:
        yield
    finally:
        if sys.modules.get(name) is stub:
            del sys.modules[name]
