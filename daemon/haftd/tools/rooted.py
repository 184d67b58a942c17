"""The tools of one root: what its trusted files define, beside the user's own.

Rules: a root only adds. A name that the user's own tools have, or those that come with the daemon,
stays theirs, and the user's `'*'` lies under a root's tools: where it says `run`, no action gets freer
by what a root says. Each file stands for itself, so that what was looked at is what runs, whatever
becomes of the files beside it; of two that define one tool the first in name order does. None lets its processes act for a person, and none is about a server of the user's. What is
read is the very bytes that were hashed. What is not trusted is not understood, only searched for a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

from haft_protocol.methods import Problem
from haft_protocol.trust import FileState

from .approving import mode_of, stricter, stricter_mode
from .definition import Tool
from .document import Document, Unreadable, parse, problem
from .load import Layer, layers_of, merged, tables, tools_of
from .offer import Offer
from .roots import Folder, Found, Refused
from .served import server_of
from .trust import TrustedFile

_MAX_DOTS = 64
_MAX_TOOLS = 128
_MAX_FORMER = 256
_NAME = "A-Za-z0-9_-"
_TOKEN = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}(?!"))*+(?:"{3,5})?
    | \'{3}(?:[^\']|\'{1,2}(?!\'))*+(?:\'{3,5})?
    | "(?:[^"\\\n]|\\.)*+"? | \'[^\'\n]*+\'? | \#[^\n]*+
    | (?P<dot>\.) | (?P<end>[\n=,\[\]{}])''',
    re.VERBOSE | re.DOTALL,
)
"""What of TOML may hold dots or end a key; what is unfinished goes to where it must have ended."""


@dataclass(frozen=True, slots=True)
class Own:
    """What is the user's: their tools, and what they say of all tools."""

    offer: Offer
    shared: tuple[Layer, ...] = ()


@dataclass(frozen=True, slots=True)
class Understood:
    """What a file says. `said` is every definition of it as it is written, over the file's `'*'`."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def understand(found: Found, own: Own) -> Understood:
    """Read a file's definitions. It may take as long as a file of that size can be made to take."""
    try:
        document = _document(found)
    except Unreadable as wrong:
        return Understood(problems=(problem(found.path, "", wrong.message, wrong.line),))
    problems: list[Problem] = []
    layers = list(layers_of(document, problems))
    tools = tools_of((*own.shared, *layers), problems)
    for name in [name for name, tool in tools.items() if tool.may]:
        why = "only a definition of the user's own lets its processes act for a person"
        problems.append(problem(found.path, f"tools.{name}.may", why, tools.pop(name).line))
    for name in [name for name, tool in tools.items() if server_of(tool) is not None]:
        why = "only a definition of the user's own is about a tool of a server"
        problems.append(problem(found.path, f"tools.{name}.source", why, tools.pop(name).line))
    said = {}
    for name in dict.fromkeys(layer.name for layer in layers if layer.name != "*"):
        forms = {layer.form for layer in layers if layer.name == name}
        under = [layer for layer in layers if layer.name == "*" and layer.form in forms]
        said[name] = merged((*under, *(layer for layer in layers if layer.name == name)))
    return Understood(
        {name: _policed(tool, own.shared) for name, tool in tools.items()}, said, tuple(problems)
    )


def _document(found: Found) -> Document:
    try:
        text = found.data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 (byte {error.start})") from None
    dots = 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            dots = 0
        elif token["dot"]:
            dots += 1
            # What reads TOML takes the square of such a key's length.
            if dots > _MAX_DOTS:
                line = text.count("\n", 0, token.start()) + 1
                raise Unreadable(f"it has a key of more than {_MAX_DOTS} parts", line)
    document = parse(text, found.path)
    if sum(len(one) for one in tables(document)) > _MAX_TOOLS:
        raise Unreadable(f"it defines more than {_MAX_TOOLS} tools")
    return document


def _policed(tool: Tool, shared: Sequence[Layer]) -> Tool:
    said = {layer.form: layer.values["run"] for layer in shared if "run" in layer.values}
    for run in said.values():
        tool = replace(tool, run=stricter(tool.run, run))
    results = {one.form: one.values["result"] for one in shared if "result" in one.values}
    for result in results.values():
        tool = replace(tool, result=stricter_mode(mode_of(tool, "result"), result))
    return tool


def own_of(reading: Understood, own: Own) -> tuple[dict[str, Tool], list[Problem]]:
    """Those tools of a reading whose names are free; the others are named."""
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for name, tool in reading.tools.items():
        theirs = own.offer.get(name)
        if theirs is None:
            tools[name] = tool
            continue
        message = (
            f"it is not used: the name is taken by a tool of {theirs.file}, and a root only adds"
        )
        problems.append(problem(tool.file, f"tools.{name}", message, tool.line))
    return tools, problems


def state_of(found: Found, trusted: Mapping[str, TrustedFile]) -> FileState:
    """Whether the file is `trusted`, `changed` since it was, or `new`."""
    known = trusted.get(found.name)
    if known is None:
        return "new"
    return "trusted" if known.digest == found.digest else "changed"


class Rooted:
    """One root as it was when it was last looked at."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = Folder(root)
        self.offer = Offer({})
        self._untrusted: tuple[tuple[Found, str], ...] = ()
        self._former: dict[str, Tool] = {}
        self._made_of: tuple[object, ...] = ()

    def look(self, own: Own, trusted: Mapping[str, TrustedFile]) -> None:
        """Take in what has changed."""
        found = self.folder.look()
        made_of = (own, found, trusted)
        if all(map(_same, made_of, self._made_of)) and self._made_of:
            return
        self._made_of = made_of
        self._former = dict([*self._former.items(), *self.offer.tools.items()][-_MAX_FORMER:])
        self._untrusted = tuple(
            (one, state)
            for one in found
            if isinstance(one, Found) and (state := state_of(one, trusted)) != "trusted"
        )
        waiting = {one.name for one, _ in self._untrusted}
        tools: dict[str, Tool] = {}
        problems = [self._refused(one) for one in found if isinstance(one, Refused)]
        problems += [self._waits(one, state) for one, state in self._untrusted]
        for one in found:
            if not isinstance(one, Found) or one.name in waiting:
                continue
            reading = understand(one, own)
            usable, taken = own_of(reading, own)
            problems += [*reading.problems, *taken]
            for name, tool in usable.items():
                tool = replace(tool, root=self.root)
                if (first := tools.setdefault(name, tool)) is not tool:
                    said = f"it is not used: {first.file} defines that tool as well"
                    problems.append(problem(tool.file, f"tools.{name}", said, tool.line))
        self.offer = Offer({**own.offer.tools, **tools}, tuple(problems))

    def former(self, name: str) -> Tool | None:
        """A tool that was there; a handle of it may be there still."""
        return self._former.get(name)

    def speaks_of(self, name: str) -> tuple[str, str] | None:
        """The path of an untrusted file in which the name stands, and its state."""
        word = re.compile(f"(?<![{_NAME}]){re.escape(name)}(?![{_NAME}])".encode())
        for one, state in self._untrusted:
            if word.search(one.data):
                return one.path, state
        return None

    def _waits(self, one: Found, state: str) -> Problem:
        since = "it has changed since it was trusted" if state == "changed" else "it is not trusted"
        said = f"{since}; see what it would run, and trust it, with `haft trust {quote(self.root)}`"
        return problem(one.path, "", said)

    def _refused(self, one: Refused) -> Problem:
        return problem(one.path, "", f"it is not read: {one.why}")


def _same(one: object, other: object) -> bool:
    # The texts of a store that was written again are equal, and seldom the same.
    return one is other or (isinstance(one, Mapping) and one == other)
