"""Remedies for refusals of the daemon: the command line that was probably meant.

They are lower-case clauses, printed after the error and a semicolon.
"""

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

_SHELL_METACHARACTERS = re.compile(r"[|&;<>()$`*?]")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_BUILTINS = frozenset(
    [".", "alias", "cd", "eval", "exit", "export", "set", "source", "trap", "ulimit", "umask"]
)
"""Shell builtins that no program replaces."""
_FIRST_NAME = re.compile(r"[^.\[]+")
"""Name of the argument in a problem's `path`, such as `a.b[0]`."""


def explain_missing_program(words: Sequence[str]) -> str | None:
    """Suggest a command line in place of one whose first word names no program; None without a suggestion.

    >>> explain_missing_program(["ls | wc"])
    "`|` needs a shell: haft run -- sh -c 'ls | wc'"
    """
    first = words[0]
    is_one_word = len(words) == 1
    if is_one_word:
        if metacharacter := _SHELL_METACHARACTERS.search(first):
            return f"`{metacharacter[0]}` needs a shell: haft run -- sh -c {shlex.quote(first)}"
        # A whole command in one word, as 'CC=gcc make'.
        words = _split(first)
    if _VARIABLE.fullmatch(first):
        return f"to set variables, use env: haft run -- env {shlex.join(words)}"
    if words[0] in _BUILTINS:
        script = shlex.quote(first if is_one_word else shlex.join(words))
        return f"{words[0]!r} is a command of the shell: haft run -- sh -c {script}"
    if is_one_word and len(first.split()) > 1:
        return f"write the command as separate words: haft run -- {first}"
    return None


def _split(text: str) -> list[str]:
    """Return the words of a command in one string; the string alone if it is empty or has an open quote."""
    try:
        return shlex.split(text) or [text]
    except ValueError:
        return [text]


def explain_refused_start(
    haft: Haft, tool: str, words: Sequence[str] | None, refused: RemoteError
) -> str | None:
    """Suggest a command line in place of the refused one; None without a suggestion."""
    data: Any = refused.data if isinstance(refused.data, dict) else {}
    match refused.kind:
        # A guess: the daemon may have another PATH, or be on another machine.
        case "tool_not_found" if shutil.which(tool):
            return f"to run the program: haft run -- {shlex.join([tool, *(words or ())])}"
        case "spawn_failed" if data.get("reason") == "program" and words:
            return explain_missing_program(words)
        case "invalid_arguments":
            return _explain_arguments(haft, tool, data.get("problems", ()))
    return None


def _explain_arguments(haft: Haft, tool: str, problems: Sequence[dict[str, Any]]) -> str | None:
    """Suggest an option for each wrong or missing argument; None without a definition of the tool."""
    try:
        listed: ToolsListResult = haft.tools()
    except HaftError:
        return None
    # `name` is one that model providers accept; `tool` is the tool's own name, if different.
    match = next((each for each in listed.tools if tool in (each.name, each.tool)), None)
    if match is None:
        return None
    arguments = arguments_of(match.parameters)
    paths = (_FIRST_NAME.match(str(problem.get("path", ""))) for problem in problems)
    names = dict.fromkeys(path[0] for path in paths if path is not None)
    options = " ".join(arguments[name].example for name in names if name in arguments)
    shown = f"`haft tools {shlex.quote(tool)}` shows the arguments"
    return f"give {options}; {shown}" if options else shown
