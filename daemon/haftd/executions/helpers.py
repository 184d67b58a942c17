"""Questions to a tool's own program: its schema, its arguments as a person should read them.

Rules: a helper command is no execution of the tool. It has no handle, nobody is asked for leave, nothing of it
goes to a session or into its notices; the tool's command runs once with another `action` in its
context, and what it prints is the answer. It is started, recorded, marked and ended as any process of
a tool is. Section 10.
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
    """Runs tools' programs for what they print, a few at once; the others wait for their turn."""

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
        """Run the tool's command with `action` in its context; returns what it printed on its
        standard output when it has ended with 0, or why there is nothing.

        `args` are as `arguments.check` returns them: templates see them. `root`, `session`, `handle`
        (an id) and `vars` are those of the context, `client` the environment that the client sent, if it did.
        With `command` that one is run in place of the tool's own, filled in and treated the same.
        The program is on pipes whatever the tool's runtime is, with an empty standard input and its
        standard error apart; it gets the environment and HAFT_CALL of a call, and all limits of the
        definition, besides `timeout_s` (from its start) and `runtimes.process.helper.MAX_OUTPUT_BYTES` bytes.

        Never raises for what the program or the definition does. `Failed.why` is a clause to follow
        "the program" or the tool's name ("ended with exit code 3", "did not end within 10 s"); of
        kind `start` it is a sentence. Cancelled, it returns when nothing of the program is left.
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
