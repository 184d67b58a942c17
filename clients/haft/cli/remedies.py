"""Remedies for refusals of the daemon: the command that was meant."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from typing import Any

from haft_protocol.methods import ToolsListResult

from ..client import Haft
from ..errors import HaftError, RemoteError
from .tool_arguments import arguments_of

_OF_A_SHELL = re.compile(r"[|&;<>()$`*?]")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_BUILTINS = frozenset(
    [".", "alias", "cd", "eval", "exit", "export", "set", "source", "trap", "ulimit", "umask"]
)
"""Shell builtins that no program replaces."""
_FIRST_NAME = re.compile(r"[^.\[]+")


def explain_missing_program(words: Sequence[str]) -> str | None:
    """Describe the command that was meant where its first word names no program; None if unknown.

    >>> explain_missing_program(["ls | wc"])
    "`|` needs a shell: haft run -- sh -c 'ls | wc'"
    """
    first = words[0]
    # A whole command in one word, without a shell's signs: 'CC=gcc make'.
    if len(words) == 1 and _VARIABLE.fullmatch(first) and not _OF_A_SHELL.search(first):
        words = _split(first)
    # One word with a shell's sign is a script, see below.
    if _VARIABLE.fullmatch(first) and (len(words) > 1 or not _OF_A_SHELL.search(first)):
        return f"to set variables, use env: haft run -- env {shlex.join(words)}"
    if first in _BUILTINS:
        script = shlex.quote(shlex.join(words))
        return f"{first!r} is a command of the shell: haft run -- sh -c {script}"
    if len(words) > 1:
        return None
    if sign := _OF_A_SHELL.search(first):
        return f"`{sign[0]}` needs a shell: haft run -- sh -c {shlex.quote(first)}"
    if len(first.split()) > 1:
        return f"write the command as separate words: haft run -- {first}"
    return None


def _split(text: str) -> list[str]:
    """Return the words of a command in one text; the text alone if a quote is left open."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def explain_refused_start(
    haft: Haft, tool: str, words: Sequence[str] | None, refused: RemoteError
) -> str | None:
    """Describe how to write the start that the daemon has refused; None if unknown."""
    data: Any = refused.data if isinstance(refused.data, dict) else {}
    match refused.kind:
        case "tool_not_found" if shutil.which(tool):
            return f"to run the program: haft run -- {shlex.join([tool, *(words or ())])}"
        case "spawn_failed" if data.get("reason") == "program" and words:
            return explain_missing_program(words)
        case "invalid_arguments":
            return _of_arguments(haft, tool, data.get("problems", ()))
    return None


def _of_arguments(haft: Haft, tool: str, problems: Sequence[dict[str, Any]]) -> str | None:
    """Show each wrong or missing argument as an option."""
    try:
        listed: ToolsListResult = haft.tools()
    except HaftError:
        return None
    # `name` has a form that providers accept; `tool` is the tool's own name, if different.
    match = next((each for each in listed.tools if tool in (each.name, each.tool)), None)
    if match is None:
        return None
    arguments = arguments_of(match.parameters)
    paths = (_FIRST_NAME.match(str(problem.get("path", ""))) for problem in problems)
    names = dict.fromkeys(path[0] for path in paths if path is not None)
    options = " ".join(arguments[name].example for name in names if name in arguments)
    shown = f"`haft tools {shlex.quote(tool)}` shows the arguments"
    return f"give {options}; {shown}" if options else shown
