"""The runtime `vfs`: a live tool in an empty sandbox, with host calls beside the states."""

from __future__ import annotations

from ..base import Call, RuntimeContext
from ..wasm.runtime import CompiledModules, is_module


class VfsRuntime:
    """Runs calls with `mediation`; every process of theirs is confined."""

    def __init__(self, modules: CompiledModules | None = None) -> None:
        self._modules = modules

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        from .mediated import run_mediated  # TLS and HTTP, which most daemons never need

        if self._modules is not None and is_module(call):
            call = await self._modules.prepared(call)
        return await run_mediated(call, context)
