"""Display of a call's arguments to the approving user, by a program (docs/protocol.md, "Approvals").

Output is bounded, invisible characters escaped; the fallback is JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from haft_protocol.outcome import Failure, Malformed, NeedsInput, Success, read_outcome
from haftd.executions.calls import Prepared
from haftd.executions.helpers import HelperRunner
from haftd.runtimes.process.helper import Failed
from haftd.tools.definitions.approval_policy import escape_invisible, render
from haftd.tools.definitions.definition import Command

MAX_RENDER_S = 3.0
"""Maximum delay of an approval by rendering."""


def renderer(helpers: HelperRunner, ready: Prepared) -> Callable[[], Awaitable[str]] | None:
    """Return the rendering of a start's arguments; None without a program."""
    tool = ready.tool
    command = tool.style.get("parameters")
    if not isinstance(command, Command):
        return None

    async def rendered() -> str:
        output: bytes | Failed = Failed("time", "has not had its turn in time")
        with trio.move_on_after(2 * MAX_RENDER_S):
            output = await helpers.run(
                tool,
                "format_arguments",
                root=ready.context.root,
                session=ready.session,
                args=ready.args,
                handle=ready.id,
                client=ready.client,
                vars=ready.context.vars,
                command=command,
                timeout_s=MAX_RENDER_S,
            )
        text = _read(output)
        if isinstance(text, str):
            return escape_invisible(text)
        plain = render(tool.style, tool.name, ready.args)
        return f"{escape_invisible(f'{text.why}; they are shown as JSON.')}\n{plain}"

    return rendered


def _read(output: bytes | Failed) -> str | Failed:
    subject = "The program that shows the arguments"
    if isinstance(output, Failed):
        prefix = "cannot be run: " if output.kind == "start" else ""
        return Failed(output.kind, f"{subject} {prefix}{output.why.rstrip('.')}")
    match read_outcome(output):
        case Success(content=content):
            text = content
        case Failure(message=message):
            return Failed("output", f"{subject} has failed: {message.rstrip('.')}")
        case Malformed(message=message):
            return Failed("output", f"{subject} printed {message}")
        case NeedsInput():
            return Failed("output", f"{subject} asks a question, and nobody answers it")
        case _:
            text = output.decode("utf-8", "replace")
    text = text.removesuffix("\n")
    return text if text.strip() else Failed("output", f"{subject} printed nothing")
