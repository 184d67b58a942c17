"""Runtime of tools on pipes."""

from __future__ import annotations

from haftd.runtimes.base import Call, RuntimeContext

from .child import Child, Output
from .events import Live
from .interpreter import Plain
from .oneshot import OneShot
from .pipes import PipeControl
from .resource_limits import ResourceLimits


class ProcessRuntime:
    """Runtime `stdio`. Raw output is one pipe for both streams, in order, unless the launch splits them."""

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        limits = ResourceLimits(call.launch.limits)
        if call.launch.output == "outcome":
            return await OneShot(call, context, limits).run()
        async with await Child.start(call, context, limits) as child:
            if call.launch.output == "events":
                return await Live(call, context, child).run()
            control = PipeControl(call, context, child)
            context.started(control)
            splits_stderr = call.launch.splits_stderr
            del call
            outputs = [Output(child.stdout, child.emit, context.keep_up)]
            if splits_stderr:
                outputs.append(Output(child.stderr, child.emit_stderr, context.keep_up))
            await child.run(outputs, Plain(), at_end=control.close)
        return None
