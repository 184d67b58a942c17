"""Tasks of one connection. They run in the nursery of all connections: a nursery of its own takes a
twelfth of the processor time of a connection that makes one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import trio

Arguments = TypeVarTuple("Arguments")


class ConnectionTasks:
    """Tasks that end with their connection; `on_fault` is called with a task's exception, which
    leaves other connections alone."""

    __slots__ = ("_ended", "_is_over", "_nursery", "_on_fault", "_scopes")

    def __init__(self, nursery: trio.Nursery, on_fault: Callable[[Exception], None]) -> None:
        self._nursery = nursery
        self._on_fault = on_fault
        self._scopes: set[trio.CancelScope] = set()
        self._is_over = False
        self._ended: trio.lowlevel.ParkingLot | None = None

    def start_soon(
        self,
        function: Callable[[*Arguments], Awaitable[object]],
        *arguments: *Arguments,
    ) -> None:
        scope = trio.CancelScope()
        self._scopes.add(scope)
        if self._is_over:
            scope.cancel()
        self._nursery.start_soon(self._run, scope, function, arguments)

    async def _run(
        self,
        scope: trio.CancelScope,
        function: Callable[..., Awaitable[object]],
        arguments: tuple[object, ...],
    ) -> None:
        try:
            with scope:
                await function(*arguments)
        except Exception as fault:
            self._on_fault(fault)
        finally:
            self._scopes.remove(scope)
            if not self._scopes and self._ended is not None:
                self._ended.unpark_all()

    def cancel(self) -> None:
        """Cancel all tasks, also those started later."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()

    async def end(self) -> None:
        """Cancel all and wait for their ends, also when cancelled; no checkpoint without tasks."""
        self.cancel()
        if self._scopes:
            self._ended = trio.lowlevel.ParkingLot()
            with trio.CancelScope(shield=True):
                while self._scopes:
                    await self._ended.park()
