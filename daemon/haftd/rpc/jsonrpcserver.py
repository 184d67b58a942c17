"""Adapter of jsonrpcserver, its only importer.

A `__signature__` with its own `bind` replaces `inspect.signature`, a third of the library's time.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from haft_protocol.errors import RpcError, method_not_found
from haft_protocol.rpc import read_params
from haftd.caller import Caller
from haftd.import_stubs import empty_module, stubbed, unexecuted_package
from haftd.methods.base import MethodHandler

with (
    # Submodules only: the package imports an HTTP server and a schema checker.
    stubbed("jsonrpcserver", unexecuted_package("jsonrpcserver")),
    # It imports eighteen monads, of which the library uses one.
    stubbed("oslash", unexecuted_package("oslash")),
    stubbed("asyncio", empty_module("asyncio")),
    warnings.catch_warnings(),
):
    # The library uses a call deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from jsonrpcserver import dispatcher
    from jsonrpcserver.async_dispatcher import dispatch_request
    from jsonrpcserver.request import Request
    from jsonrpcserver.result import ErrorResult, SuccessResult
    from oslash.either import Left, Right

setattr(dispatcher, "signature", attrgetter("__signature__"))  # noqa: B010

# `on_fault` has logged the exception.
logging.getLogger("jsonrpcserver").setLevel(logging.CRITICAL)


class MethodTable(dict[str, Callable[..., Any]]):
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
        self[name] = _Method(name, params_type, handler, self._on_fault)

    def call(self, name: str, caller: Caller, params: object) -> object:
        """Call a method. Raises `RpcError`, also for an unknown method.

        `params` are raw JSON or a decoded struct.
        """
        dispatch = dispatch_request(self, caller, Request(name, [params], None))
        try:
            dispatch.send(None)
        except StopIteration as stop:
            _, result = stop.value
        else:
            dispatch.close()
            raise AssertionError("a method decides synchronously, so its call never suspends")
        if isinstance(result, Left):
            error = result._error
            raise RpcError.received(error.code, error.message, error.data)
        return result._value.result


class _Signature(inspect.Signature):
    __slots__ = ("_method",)
    _method: _Method

    @classmethod
    def of(cls, method: _Method) -> _Signature:
        signature = cls()
        signature._method = method
        return signature

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Decode `args[1]`. Raises `RpcError`, which the library lets through."""
        method, params = self._method, args[1]
        method.params = (
            params if isinstance(params, msgspec.Struct) else read_params(params, method.type)
        )


class _Method:
    """Method for jsonrpcserver; nothing runs between `bind` and the call."""

    def __init__(
        self,
        name: str,
        params_type: type[Any],
        handler: MethodHandler,
        on_fault: Callable[[str, Exception], RpcError],
    ) -> None:
        self.type = params_type
        self.params: object = None
        self._name = name
        self._handler = handler
        self._on_fault = on_fault
        self.__signature__ = _Signature.of(self)

    async def __call__(self, caller: Caller, _params: object) -> Any:
        try:
            return Right(SuccessResult(self._handler(caller, self.params)))
        except RpcError as error:
            # The traceback's frames would keep the request alive.
            refusal = error.with_traceback(None)
        except Exception as fault:
            refusal = self._on_fault(self._name, fault)
        finally:
            self.params = None
        return Left(ErrorResult(refusal.code, refusal.message, refusal.data))
