"""Helper commands: a tool's program describes its schema or renders arguments, without handle,
approval or notices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import trio
from msgspec.structs import replace

from haft_protocol.errors import RpcError
from haftd.runtimes.process.helper import Failed, run_helper
from haftd.tools.calls.environment import path_of
from haftd.tools.calls.resolve import CallContext
from haftd.tools.definitions.definition import Command, Tool

from .call_factory import CallFactory

_MAX_AT_ONCE = 32


class HelperRunner(msgspec.Struct):
    """Runs at most `_MAX_AT_ONCE` helper commands together; further commands queue."""

    call_factory: CallFactory
    _turns: trio.Semaphore = msgspec.field(default_factory=lambda: trio.Semaphore(_MAX_AT_ONCE))

    async def run(
        self,
        tool: Tool,
        action: Literal["schema", "format_arguments"],
        *,
        root: str,
        session: str,
        args: Mapping[str, Any] | None = None,
        handle: str = "",
        client: Mapping[str, str | None] | None = None,
        vars: Mapping[str, Any] | None = None,
        command: Command | None = None,
        timeout_s: float = 10,
    ) -> bytes | Failed:
        """Run the command with `action`; return standard output for status 0.

        `args` come from `arguments.check`; `client` is the client's environment; `command` replaces
        the tool's command. The program runs on pipes with empty input, the definition's limits,
        `timeout_s` and `runtimes.process.helper.MAX_OUTPUT_BYTES`.

        Errors of program or definition return `Failed`: `why` is a sentence for the kind `start`,
        else a clause ("ended with exit code 3"). A cancelled call returns after the last process.
        """
        # Another program needs no special runtime, as a module does.
        asked = tool if command is None else replace(tool, command=command, runtime="stdio")
        if asked.command is None:
            return Failed("start", "It has no command.")
        path = path_of(self.call_factory.settings.environ, client)
        context = CallContext(
            root=root,
            session=session,
            handle=handle,
            action=action,
            path=path,
            vars=vars or {},
            variables=self.call_factory.settings.environ,
        )
        async with self._turns:
            try:
                call = self.call_factory.make_helper_call(
                    asked, args or {}, context, client, timeout_s
                )
            except RpcError as error:
                return Failed("start", error.message)
            except OSError as error:
                return Failed("start", f"Its call cannot be written to a file: {error.strerror}.")
            return await run_helper(call, self.call_factory.clear_up)
