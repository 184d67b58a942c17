"""Python functions as tools: from tool files, and packages' entry points `haft.tools`.

Tool files are parsed, never imported: a top-level function with the decorator `tool` is a
definition. The program is a worker process (`haft.tools`), or the file itself if executable with
`#!`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from haft_protocol.errors import shown
from haft_protocol.methods import Problem
from haftd.launch_spec import PYTHON_WORKER

from .document import Document, UnreadableFile, problem, read_text
from .entry_points import EntryPoint, find_entry_points
from .fields import NAME

if TYPE_CHECKING:
    import ast

    from .definition import Tool


GROUP = "haft.tools"

_ACTION = "{{ context.action }}"
"""Command word of a program able to answer the request for its description."""

_MODULE = "haft.tools"
"""Module of the decorator; a file without this name has no tools."""

_DECORATOR = "tool"
_NOT_SET = frozenset({"command", "source", "runtime", "output", "parameters"})


def read_functions(path: Path) -> Document:
    """Read the definitions of a tool file; raises `UnreadableFile`."""
    text = read_text(path)
    if "{" in str(path):
        raise UnreadableFile(
            "the path of a tool file must not have braces: they would be a template"
        )
    tools: dict[str, Any] = {}
    lines: dict[tuple[str, ...], int] = {}
    module = _parse(text) if _MODULE in text else None
    for name, line, options in () if module is None else _list_functions(module):
        if name in tools:
            raise UnreadableFile(f"there are two tools with the name {shown(name)}", line)
        tools[name] = options | _make_definition(_choose_program(path, text))
        lines[("tools", name)] = line
    return Document(str(path), {"tools": tools}, lines)


def _parse(text: str) -> ast.Module:
    import ast  # only tool files need ast

    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UnreadableFile(f"it is not valid Python: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError, MemoryError):
        raise UnreadableFile("it is not valid Python") from None


def _choose_program(path: Path, text: str) -> list[str]:
    if text.startswith("#!") and os.access(path, os.X_OK):
        return [str(path)]
    return [*PYTHON_WORKER, str(path)]


def is_function(tool: Tool) -> bool:
    """True if the program is the worker process, whose description of a file has all its functions,
    whichever is asked for."""
    return tool.command is not None and tool.command.words[: len(PYTHON_WORKER)] == PYTHON_WORKER


def _make_definition(program: Sequence[str]) -> dict[str, Any]:
    return {"output": "events", "command": [*program, _ACTION]}


def _list_functions(module: ast.Module) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield name, line and options of each top-level function with the decorator."""
    import ast

    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if _find_last_name(called) != _DECORATOR:
                continue
            fields = _read_fields(call.keywords if call else [], node.lineno)
            name = fields.pop("name", node.name)
            yield str(name), node.lineno, fields


def _find_last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _read_fields(keywords: Iterable[ast.keyword], line: int) -> dict[str, Any]:
    import ast

    fields = {}
    for keyword in keywords:
        key = keyword.arg or "**"
        try:
            fields[key] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, RecursionError):
            raise UnreadableFile(f"`{key}` of a tool is not a literal", line) from None
        if key in _NOT_SET:
            raise UnreadableFile(f"`{key}` of a tool that is a function cannot be set", line)
    return {key: value for key, value in fields.items() if value is not None}


def find_packaged_functions(
    folders: Iterable[str], taken: Collection[str], problems: list[Problem]
) -> list[Document]:
    """Return packages' functions as definitions. Those with a name in `taken`, and faults, go to
    `problems`."""
    documents = []
    for entry in find_entry_points(GROUP, folders):
        if why := _find_fault(entry, taken):
            key = f"{GROUP}.{entry.name}"
            problems.append(problem(entry.file, key, why, entry.line))
            continue
        reference = f"{entry.module}:{entry.object}"
        program = ["--entry", reference, "--path", entry.folder]
        definition = _make_definition([*PYTHON_WORKER, *program])
        place: dict[tuple[str, ...], int] = {("tools", entry.name): entry.line}
        documents.append(Document(entry.file, {"tools": {entry.name: definition}}, place))
    return documents


def _find_fault(entry: EntryPoint, taken: Collection[str]) -> str:
    if entry.name in taken:
        return f"haftd has its own tool {shown(entry.name)}, which cannot be replaced"
    if not NAME.fullmatch(entry.name):
        return f"{shown(entry.name)} is not a name for a tool"
    if not entry.object:
        return 'an entry point for a tool must name a function: "module:function"'
    if "{" in f"{entry.folder}{entry.module}{entry.object}":
        return "it has braces, which would be a template"
    return ""
