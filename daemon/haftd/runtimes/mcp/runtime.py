"""Runtime of MCP servers' tools; a server outlives the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from haftd.core.termination import LIMIT, LOST, Termination

from ..base import Call, RuntimeContext, StartFailed, ToolFailed, is_cancellation
from ..no_process import NoProcessControl
from ..process.failure_hint import find_error_line
from .servers import Servers

if TYPE_CHECKING:
    from .connection import Connection


class McpRuntime:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        from .server import ServerFault

        if call.served is None:
            raise AssertionError("a call of a server's tool without the server")
        name, tool = call.served
        server = self._servers.get(name)
        if server is None:
            raise StartFailed(f"There is no longer an MCP server `{name}`.", "server")
        try:
            connection = await server.connect()
        except ServerFault as fault:
            raise StartFailed(fault.message, fault.reason) from None
        context.started(NoProcessControl(call.tool))
        try:
            with trio.move_on_after(call.launch.limits.get("wall_s", float("inf"))) as bound:
                result = await self._call(call, context, connection, name, tool)
        except ToolFailed as failure:
            context.ended(failure.termination)
            raise
        except BaseException as error:
            if is_cancellation(error):
                context.ended(Termination(by=LOST))
            raise
        if bound.cancelled_caught:
            context.ended(Termination(by=LIMIT, limit="wall_s"))
            return None
        context.ended(Termination(result=result))
        return result

    async def _call(
        self, call: Call, context: RuntimeContext, connection: Connection, name: str, tool: str
    ) -> str:
        from .exchange import Exchange, decode_text
        from .peer import Disconnected
        from .server import ServerFault

        server = self._servers.get(name)
        failure: ToolFailed | None = None
        text = ""
        async with trio.open_nursery() as nursery:
            try:
                if server is None:
                    raise ServerFault(f"There is no longer an MCP server `{name}`.")
                silence_s = server.settings.call_s
                try:
                    # Without a checkpoint before, as calls continue in the order of their arrival.
                    exchange = Exchange(connection, context, nursery, call.mark, silence_s)
                    result = await exchange.run(tool, server.find(tool), call.arguments)
                except Disconnected as gone:
                    if gone.was_done:
                        raise
                    exchange = Exchange(
                        await server.connect(), context, nursery, call.mark, silence_s
                    )
                    result = await exchange.run(tool, server.find(tool), call.arguments)
                text = decode_text(result, call.save)
                if result.is_error:
                    failure = ToolFailed(text or "The tool failed without a message.")
            except ToolFailed as failed:
                failure = failed
            except ServerFault as fault:
                failure = ToolFailed(fault.message, transient=True)
            except Disconnected as gone:
                failure = _disconnected(name, gone.message, gone.lines)
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return text


def _disconnected(name: str, how: str, lines: tuple[str, ...]) -> ToolFailed:
    last = f" Its standard error ended with: {find_error_line(lines)}" if lines else ""
    return ToolFailed(
        f"The MCP server `{name}` {how} during the call.{last}", tuple(lines), transient=True
    )
