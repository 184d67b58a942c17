"""Runtimes of packages installed beside haftd (entry point `haft.runtimes`), with all its rights."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

from haftd.threads import run_in_thread
from haftd.tools.definitions.entry_points import EntryPoint

from .base import Call, Runtime, RuntimeContext, StartFailed


class PackageRuntime:
    """Runtime imported in a thread on first use; an import error fails that start only."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._runtime: Runtime | None = None

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        if self._runtime is None:
            self._runtime = await self._create()
        return await self._runtime.run(call, context)

    async def _create(self) -> Runtime:
        entry = self._entry
        try:
            make = await run_in_thread(self._load)
            runtime: Runtime = make()
        except Exception as error:
            raise StartFailed(
                f"the runtime {entry.name} ({entry.module}:{entry.object}) cannot be loaded: "
                f"{type(error).__name__}: {error}",
                "runtime",
            ) from None
        return runtime

    def _load(self) -> Callable[[], Runtime]:
        module: Any = import_module(self._entry.module)
        factory: Callable[[], Runtime] = reduce(getattr, self._entry.object.split("."), module)
        return factory
