"""Helper commands: a tool's own program describes its schema or renders arguments.

A helper command is no execution: no handle, no approval, no session and no notices. The tool's
command runs once with another `action` in the context, and the output is the answer. Start, record,
tag and end are those of a tool. Section 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import trio

from haft_protocol.errors import RpcError
from haftd.runtimes.process.helper import Failed, run_helper
from haftd.tools.calls.environment import path_of
from haftd.tools.calls.resolve import CallContext
from haftd.tools.definitions.definition import Command, Tool

from .calls import Calls

_MAX_AT_ONCE = 32


@dataclass(slots=True)
class HelperRunner:
    """Runs helper commands, a few at once; others queue."""

    calls: Calls
    _turns: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(_MAX_AT_ONCE))

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
        """Run the tool's command with `action` in the context; return the standard output with
        status
        0, else the failure.

        `args` are as `arguments.check` returns them, for templates. `root`, `session`, `handle` (an
        id) and `vars` belong to the context, `client` is the client's environment, if sent.
        `command` replaces the tool's own. The program runs on pipes in any runtime, with empty
        standard input and separate standard error, with the environment and HAFT_CALL of a call and
        all limits of the definition, besides `timeout_s` (from the start) and
        `runtimes.process.helper.MAX_OUTPUT_BYTES`.

        Never raises for errors of the program or the definition. `Failed.why` is a clause that
        follows "the program" or the tool's name ("ended with exit code 3", "did not end within 10
        s"); of kind `start` a sentence. On cancellation the return follows the last process.
        """
        asked = tool if command is None else replace(tool, command=command)
        if asked.command is None:
            return Failed("start", "It has no command.")
        path = path_of(self.calls.place.environ, client)
        context = CallContext(
            root=root, session=session, handle=handle, action=action, path=path, vars=vars or {}
        )
        async with self._turns:
            try:
                call = self.calls.helper(asked, args or {}, context, client, timeout_s)
            except RpcError as error:
                return Failed("start", error.message)
            except OSError as error:
                return Failed("start", f"Its call cannot be written down: {error.strerror}.")
            return await run_helper(call, self.calls.clear_up)
