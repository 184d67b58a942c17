"""Runtime `vfs`: a live tool in an empty sandbox, with host calls beside the states."""

from __future__ import annotations

from ..base import Call, RuntimeContext
from ..wasm.runtime import CompiledModules, is_module


class VfsRuntime:
    def __init__(self, modules: CompiledModules | None = None) -> None:
        self._modules = modules

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        from .mediated_call import run_mediated  # imports TLS and HTTP, rarely needed

        if self._modules is not None and is_module(call):
            async with self._modules.use(call) as named:
                return await run_mediated(named, context)
        return await run_mediated(call, context)
