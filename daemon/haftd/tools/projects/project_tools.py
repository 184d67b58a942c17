"""Tools of one root, from its trusted files, in addition to the user's tools.

A root only adds names, below the user's `'*'`, without `may`. Of a tool's definitions, the first
file by name wins. The parsed bytes are the hashed bytes. Untrusted files are searched for names,
never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import msgspec
from msgspec.structs import replace

from haft_protocol.methods import Problem
from haft_protocol.trust import FileState
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.definitions.approval_policy import choose_stricter, combine_policies, find_mode
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.document import Document, UnreadableFile, parse, problem
from haftd.tools.definitions.load import (
    Layer,
    build_tools,
    find_defaults,
    merge_layers,
    read_layers,
    read_tables,
)
from haftd.tools.definitions.server_tools import find_server
from haftd.tools.lists.toolset import Toolset

from .roots import Folder, HashedFile, RefusedFile
from .trust import TrustedFile

_MAX_DOTS = 64
"""Parts of a key, for which tomllib takes time in the square of their number."""
_MAX_TOOLS = 128
"""Tools of one file."""
_MAX_FORMER = 256
"""Remembered tools that the root has no longer; the oldest are forgotten."""
_NAME = "A-Za-z0-9_-"
_TOKEN = lazy_pattern(
    r'''"""(?:[^"\\]|\\.|"{1,2}(?!"))*+(?:"{3,5})?
    | \'{3}(?:[^\']|\'{1,2}(?!\'))*+(?:\'{3,5})?
    | "(?:[^"\\\n]|\\.)*+"? | \'[^\'\n]*+\'? | \#[^\n]*+
    | (?P<dot>\.) | (?P<end>[\n=,\[\]{}])''',
    re.VERBOSE | re.DOTALL,
)
"""TOML tokens that contain dots or end a key; an unfinished one extends to its latest possible end.
"""


class UserTools(msgspec.Struct, frozen=True):
    """The user's own tools, and the layers of their `'*'`."""

    toolset: Toolset
    shared: tuple[Layer, ...] = ()


class ParsedFile(msgspec.Struct, frozen=True):
    """Tools of one file."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    raw: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """Each definition as written, merged over the file's `'*'`."""
    problems: tuple[Problem, ...] = ()


def parse_definitions(file: HashedFile, own: UserTools) -> ParsedFile:
    """Parse a file's definitions. CPU-bound: a hostile file is as slow as its size permits."""
    try:
        document = _parse_document(file)
    except UnreadableFile as wrong:
        return ParsedFile(problems=(problem(file.path, "", wrong.message, wrong.line),))
    problems: list[Problem] = []
    layers = list(read_layers(document, problems))
    tools = build_tools((*own.shared, *layers), problems)
    for name in [name for name, tool in tools.items() if tool.may]:
        why = "only the user's own definitions may let processes act for a person"
        problems.append(problem(file.path, f"tools.{name}.may", why, tools.pop(name).line))
    for name in [name for name, tool in tools.items() if find_server(tool) is not None]:
        why = "only the user's own definitions may describe a server's tool"
        problems.append(problem(file.path, f"tools.{name}.source", why, tools.pop(name).line))
    raw = {}
    shared = [layer for layer in layers if layer.name == "*"]
    for name in dict.fromkeys(layer.name for layer in layers if layer.name != "*"):
        written = [layer for layer in layers if layer.name == name]
        raw[name] = merge_layers((*find_defaults(shared, written), *written))
    return ParsedFile(
        {name: _add_users_policies(tool, own.shared) for name, tool in tools.items()},
        raw,
        tuple(problems),
    )


def _parse_document(file: HashedFile) -> Document:
    try:
        text = file.data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"it is not UTF-8 (byte {error.start})") from None
    dots = 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            dots = 0
        elif token["dot"]:
            dots += 1
            # tomllib takes the square of such a key's length.
            if dots > _MAX_DOTS:
                line = text.count("\n", 0, token.start()) + 1
                raise UnreadableFile(f"it has a key of more than {_MAX_DOTS} parts", line)
    document = parse(text, file.path)
    if sum(len(table) for table in read_tables(document)) > _MAX_TOOLS:
        raise UnreadableFile(f"it defines more than {_MAX_TOOLS} tools")
    return document


def _add_users_policies(tool: Tool, shared: Sequence[Layer]) -> Tool:
    runs = {layer.form: layer.values["run"] for layer in shared if "run" in layer.values}
    for run in runs.values():
        tool = replace(tool, run=combine_policies(tool.run, run))
    results = {
        layer_.form: layer_.values["result"] for layer_ in shared if "result" in layer_.values
    }
    for result in results.values():
        tool = replace(tool, result=choose_stricter(find_mode(tool, "result"), result))
    return tool


def find_available_tools(
    reading: ParsedFile, own: UserTools
) -> tuple[dict[str, Tool], list[Problem]]:
    """Return the tools with unused names, and a problem for each other."""
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for name, tool in reading.tools.items():
        existing = own.toolset.get(name)
        if existing is None:
            tools[name] = tool
            continue
        message = f"it is not used: a tool of {existing.file} has this name, and a root can only add tools"
        problems.append(problem(tool.file, f"tools.{name}", message, tool.line))
    return tools, problems


def state_of(file: HashedFile, trusted: Mapping[str, TrustedFile]) -> FileState:
    """Return `new`, `trusted` or `changed`."""
    record = trusted.get(file.name)
    if record is None:
        return "new"
    return "trusted" if record.digest == file.digest else "changed"


class ProjectTools:
    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = Folder(root)
        self.toolset = Toolset({})
        self._untrusted: tuple[tuple[HashedFile, str], ...] = ()
        self._former: dict[str, Tool] = {}
        self._sources: tuple[object, ...] = ()

    def refresh(self, own: UserTools, trusted: Mapping[str, TrustedFile]) -> None:
        """Read the folder, and make `toolset` anew if files, trust or the user's tools have changed."""
        files = self.folder.read_files()
        sources = (own, files, trusted)
        if all(map(_is_same, sources, self._sources)) and self._sources:
            return
        self._sources = sources
        self._former = dict([*self._former.items(), *self.toolset.tools.items()][-_MAX_FORMER:])
        self._untrusted = tuple(
            (file, state)
            for file in files
            if isinstance(file, HashedFile) and (state := state_of(file, trusted)) != "trusted"
        )
        waiting = {file.name for file, _ in self._untrusted}
        tools: dict[str, Tool] = {}
        problems = [
            self._make_refused_problem(file) for file in files if isinstance(file, RefusedFile)
        ]
        problems += [self._make_untrusted_problem(file, state) for file, state in self._untrusted]
        for file in files:
            if not isinstance(file, HashedFile) or file.name in waiting:
                continue
            reading = parse_definitions(file, own)
            usable, conflicts = find_available_tools(reading, own)
            problems += [*reading.problems, *conflicts]
            for name, tool in usable.items():
                tool = replace(tool, root=self.root)
                if (first := tools.setdefault(name, tool)) is not tool:
                    message = f"it is not used: {first.file} also defines this tool"
                    problems.append(problem(tool.file, f"tools.{name}", message, tool.line))
        self.toolset = Toolset({**own.toolset.tools, **tools}, tuple(problems))

    def added_tools(self, own: UserTools) -> list[Tool]:
        """Return the root's self-describing tools; none before a `refresh` beside `own`."""
        is_current = self._sources[:1] == (own,)
        return [tool for tool in self.toolset.self_describing if tool.root and is_current]

    def former(self, name: str) -> Tool | None:
        """Return the last tool of this name in a toolset before the current one; None without one."""
        return self._former.get(name)

    def find_mention(self, name: str) -> tuple[str, str] | None:
        """Return path and state of the first untrusted file that mentions the name; None if none does."""
        word = re.compile(f"(?<![{_NAME}]){re.escape(name)}(?![{_NAME}])".encode())
        for file, state in self._untrusted:
            if word.search(file.data):
                return file.path, state
        return None

    def _make_untrusted_problem(self, file: HashedFile, state: str) -> Problem:
        since = "it has changed since it was trusted" if state == "changed" else "it is not trusted"
        message = (
            f"{since}; review what it would run and trust it with `haft trust {quote(self.root)}`"
        )
        return problem(file.path, "", message)

    def _make_refused_problem(self, file: RefusedFile) -> Problem:
        return problem(file.path, "", f"it is not read: {file.why}")


def _is_same(left: object, right: object) -> bool:
    # After a write, the store's mappings are equal, but no longer identical.
    return left is right or (isinstance(left, Mapping) and left == right)
