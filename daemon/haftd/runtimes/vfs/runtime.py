"""The runtime `vfs`: a live tool in an empty sandbox, with host calls beside the states."""

from __future__ import annotations

from ..base import Call, RuntimeContext


class VfsRuntime:
    """Runs calls with `mediation`; every process of theirs is confined."""

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        from .mediated import run_mediated  # TLS and HTTP, which most daemons never need

        return await run_mediated(call, context)
