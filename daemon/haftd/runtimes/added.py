"""Runtimes that packages add by the entry point `haft.runtimes`.

Rules: the package is loaded in a thread when a tool first needs it, not at the start; a fault in it fails that start and
no other. What is loaded runs in this process with all its rights, so it is what was installed beside haftd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

from haftd.threads import run_in_thread
from haftd.tools.definitions.entry_points import EntryPoint

from .base import Call, Runtime, RuntimeContext, StartFailed


class AddedRuntime:
    """A runtime that is loaded when it is first needed; its object is called without arguments."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._runtime: Runtime | None = None

    async def run(self, call: Call, port: RuntimeContext) -> str | None:
        """See `base`."""
        if self._runtime is None:
            self._runtime = await self._made()
        return await self._runtime.run(call, port)

    async def _made(self) -> Runtime:
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
        made: Callable[[], Runtime] = reduce(getattr, self._entry.object.split("."), module)
        return made
