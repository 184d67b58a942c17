"""What a root's files would run, for the person who is to trust them.

Rules: pure but for the time that reading a hostile file takes: one file at a time, so that whoever
calls may let others go on between two. Nothing that a file says is left out.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from haft_protocol.approvals import PolicedAction
from haft_protocol.trust import DefinedTool, DefinitionFile

from .approving import mode_of
from .definition import Each, Tool
from .rooted import Own, own_of, state_of, understand
from .roots import Found, Refused, text_of
from .trust import TrustedFile

_ACTIONS: tuple[PolicedAction, ...] = ("spawn", "call", "fetch", "apply", "abort", "result")


def show(one: Found | Refused, own: Own, trusted: TrustedFile | None) -> DefinitionFile:
    """One file; `trusted` is as it was trusted last."""
    if isinstance(one, Refused):
        return DefinitionFile(file=one.path, state="refused", why=one.why)
    reading = understand(one, own)
    _, taken = own_of(reading, own)
    tools = []
    for name, said in reading.said.items():
        tool = reading.tools.get(name)
        why = next((problem.message for problem in taken if problem.key == f"tools.{name}"), None)
        if tool is None:
            why = "it is wrong, so there is no such tool"
        shown = DefinedTool(name=name, says=dict(said), unused=UNSET if why is None else why)
        tools.append(shown if tool is None else _with_what_runs(shown, tool))
    return DefinitionFile(
        file=one.path,
        state=state_of(one, {} if trusted is None else {one.name: trusted}),
        digest=one.digest,
        text=text_of(one),
        was=UNSET if trusted is None or trusted.digest == one.digest else trusted.text,
        tools=tuple(tools),
        problems=reading.problems,
    )


def _with_what_runs(shown: DefinedTool, tool: Tool) -> DefinedTool:
    words: tuple[str | Each, ...] = () if tool.command is None else tool.command.words
    shell = None if tool.command is None else tool.command.shell
    modes = {action: mode_of(tool, action) for action in _ACTIONS}
    return msgspec.structs.replace(
        shown,
        runs=tuple(f"{{each = {w.each}}}" if isinstance(w, Each) else w for w in words),
        shell=UNSET if shell is None else shell,
        asks={action: mode for action, mode in modes.items() if mode != "unattended"},
        describes_itself=tool.is_asked,
    )
