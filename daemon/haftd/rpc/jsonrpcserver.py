"""Adapter of jsonrpcserver, its only importer.

The library's two steps are called one by one: between them it would compare the arguments with the
method's signature, half of its time, where the params are decoded into the method's type.
"""

from __future__ import annotations

import logging
import typing
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from haft_protocol.errors import RpcError, method_not_found
from haft_protocol.methods import METHODS
from haft_protocol.rpc import read_params
from haftd.caller import Caller
from haftd.import_stubs import stubbed, unexecuted_package
from haftd.methods.base import MethodHandler

with (
    # Submodules only: the package imports an HTTP server and a schema checker.
    stubbed("jsonrpcserver", unexecuted_package("jsonrpcserver")),
    # It imports eighteen monads, of which the library uses one.
    stubbed("oslash", unexecuted_package("oslash")),
    stubbed("typing_extensions", typing),
    warnings.catch_warnings(),
):
    # The library uses a call deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from jsonrpcserver.dispatcher import call, get_method
    from jsonrpcserver.request import Request
    from jsonrpcserver.result import ErrorResult, SuccessResult
    from oslash.either import Left, Right

_MAX_KEPT = 64
"""Params of each method that stay decoded."""
_MAX_KEPT_BYTES = 256

# `on_fault` has logged the exception.
logging.getLogger("jsonrpcserver").setLevel(logging.CRITICAL)


class MethodTable(dict[str, Any]):
    """Methods by name; `on_fault` turns an exception other than `RpcError` into an error."""

    def __init__(
        self,
        methods: Mapping[str, tuple[type[Any], MethodHandler]],
        on_fault: Callable[[str, Exception], RpcError],
    ) -> None:
        super().__init__()
        self._on_fault = on_fault
        for name, (params_type, handler) in methods.items():
            self.add(name, params_type, handler)

    def __missing__(self, name: str) -> _Method:
        raise method_not_found(name)

    def add(self, name: str, params_type: type[Any], handler: MethodHandler) -> None:
        self[name] = _Method(params_type, name, handler, self._on_fault)

    def call(self, name: str, caller: Caller, params: Any, max_bytes: int | None = None) -> object:
        """Call a method. Raises `RpcError`, also for an unknown method.

        `params` are raw JSON, or decoded as the method's type; `max_bytes` bounds the parameter of
        that name.
        """
        method = get_method(self, name)._value
        if type(params) is not method.type:
            params = method.decode(params)
        if max_bytes is not None and getattr(params, "max_bytes", 0) > max_bytes:
            params = replace(params, max_bytes=max_bytes)
        result = call(method.request, (caller, params), method.serve)
        if isinstance(result, Left):
            error = result._error
            raise RpcError.received(error.code, error.message, error.data)
        return result._value.result


_succeeded = partial(tuple.__new__, SuccessResult)
"""`SuccessResult` without the function that Python makes for a named tuple, thrice as slow."""


class _Method:
    """Method in the form that the library calls: the caller and the params are the context of a
    request that is made once."""

    def __init__(
        self,
        params_type: type[Any],
        name: str,
        handler: MethodHandler,
        on_fault: Callable[[str, Exception], RpcError],
    ) -> None:
        self.type = params_type
        self.request = Request(name, [], None)
        method = METHODS.get(name)
        self._is_kept = method is not None and method.reads_only
        self._read_kept = lru_cache(_MAX_KEPT)(lambda raw: read_params(Raw(raw), params_type))
        self._name = name
        self._handler = handler
        self._on_fault = on_fault

    def decode(self, raw: Raw | None) -> Any:
        """Decode params; raise `RpcError`. Short ones of a method that only reads are kept, as clients
        read the same again and again."""
        if raw is not None and self._is_kept and len(text := bytes(raw)) <= _MAX_KEPT_BYTES:
            return self._read_kept(text)
        return read_params(raw, self.type)

    def serve(self, context: tuple[Caller, object]) -> Any:
        """Return the result as `Right`, or the error as `Left`."""
        try:
            return Right(_succeeded((self._handler(*context),)))
        except RpcError as error:
            # The traceback's frames would keep the request alive.
            refusal = error.with_traceback(None)
        except Exception as fault:
            refusal = self._on_fault(self._name, fault)
        return Left(ErrorResult(refusal.code, refusal.message, refusal.data))
