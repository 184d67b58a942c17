"""Preview of a root's files for a decision on trust.

Hostile files parse slowly: callers yield between files.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from haft_protocol.approvals import PolicedAction
from haft_protocol.trust import DefinedTool, DefinitionFile
from haftd.tools.definitions.approval_policy import mode_of
from haftd.tools.definitions.definition import Each, Tool

from .project_tools import UserTools, available_tools, parse_definitions, state_of
from .roots import HashedFile, RefusedFile, text_of
from .trust import TrustedFile

_ACTIONS: tuple[PolicedAction, ...] = ("spawn", "call", "fetch", "apply", "abort", "result")


def show(
    file: HashedFile | RefusedFile, own: UserTools, trusted: TrustedFile | None
) -> DefinitionFile:
    """Describe one file; `trusted` is its last trusted state."""
    if isinstance(file, RefusedFile):
        return DefinitionFile(file=file.path, state="refused", why=file.why)
    reading = parse_definitions(file, own)
    _, conflicts = available_tools(reading, own)
    tools = []
    for name, fields in reading.raw.items():
        tool = reading.tools.get(name)
        why = next(
            (problem.message for problem in conflicts if problem.key == f"tools.{name}"), None
        )
        if tool is None:
            why = "it is wrong, so there is no such tool"
        shown = DefinedTool(name=name, says=dict(fields), unused=UNSET if why is None else why)
        tools.append(shown if tool is None else _with_command(shown, tool))
    return DefinitionFile(
        file=file.path,
        state=state_of(file, {} if trusted is None else {file.name: trusted}),
        digest=file.digest,
        text=text_of(file),
        was=UNSET if trusted is None or trusted.digest == file.digest else trusted.text,
        tools=tuple(tools),
        problems=reading.problems,
    )


def _with_command(shown: DefinedTool, tool: Tool) -> DefinedTool:
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
