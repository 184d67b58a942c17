"""Asks programs to describe their tools: once for each definition, when somebody first needs it.

Rules: what nobody needs is not asked. Whoever needs the same waits for the same asking; one who leaves
ends it for nobody. An answer holds until its definition is read again or its program's file changes,
and so does a failure to answer: a program that hangs costs the first list its time, and no other. A tool
is asked in the root of the first need, for its program may be found or do its work there only; one that
has not ended in time is not asked in other roots either.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import structlog
import trio

from haft_protocol.errors import RpcError
from haftd.runtimes.mcp.servers import Servers
from haftd.runtimes.process.helper import Failed
from haftd.tools.calls.environment import path_of
from haftd.tools.calls.resolve import CallContext, resolve
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.self_description import Descriptions, Undescribed, read_description

from .helpers import HelperRunner

log = structlog.get_logger("haftd.executions.describing")

_TIMEOUT_S = 10.0
_MAX_WORDS = 5
"""Of a command that may name a file of the program's: an interpreter's script comes early."""
_MAX_STDERR_LENGTH = 200

_Marks = dict[str, tuple[int, int, int] | None]
"""The files of a program, also those that are not there, and what changes with each of them."""

_MAX_ROOTS = 32
"""In so many roots the files of a program are watched."""

_ANSWERED = ""
"""In place of a root: where the program gave the answer that holds for all."""


@dataclass(slots=True, eq=False)
class _Asking:
    """One asking that is under way; `scope` ends it for all."""

    over: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


@dataclass(slots=True, eq=False)
class Describing:
    """Knows whose description is missing, and gets it; the asking is done in tasks of `nursery`."""

    helpers: HelperRunner
    descriptions: Descriptions
    nursery: trio.Nursery
    servers: Servers
    """The MCP servers, which list their tools."""
    _under_way: dict[Tool, _Asking] = field(default_factory=dict)
    _marks: WeakKeyDictionary[Tool, dict[str, _Marks]] = field(default_factory=WeakKeyDictionary)

    def lacking(self, tools: Iterable[Tool], root: str) -> list[Tool]:
        """Those of these definitions whose program is to be asked before they are spoken of."""
        found = []
        for tool in tools:
            if self._is_changed(tool, root):
                self._marks.pop(tool)
                self.descriptions.forget(tool)
            if self.descriptions.lacks(tool, root):
                found.append(tool)
        return found

    def _is_changed(self, tool: Tool, root: str) -> bool:
        """Whether a file of the program is not as it was when the program was asked."""
        places, root = self._marks.get(tool, {}), tool.root or root
        watched = [places[place] for place in (root, _ANSWERED) if place in places]
        return any(mark != _mark(path) for marks in watched for path, mark in marks.items())

    async def ask(self, tools: Iterable[Tool], root: str) -> None:
        """Return when each of them has described itself, or has been asked in vain."""
        async with trio.open_nursery() as nursery:
            for tool in tools:
                nursery.start_soon(self._one, tool, root)

    def stop(self) -> None:
        """Wait for no program any more; whoever waits is told that it was not asked."""
        for asking in self._under_way.values():
            asking.scope.cancel()

    async def _one(self, tool: Tool, root: str) -> None:
        # In vain in another root says nothing of this one.
        while self.descriptions.lacks(tool, root):
            asking = self._under_way.get(tool)
            if asking is None:
                asking = self._under_way[tool] = _Asking()
                self.nursery.start_soon(self._ask, tool, root, asking)
            await asking.over.wait()

    async def _ask(self, tool: Tool, root: str, asking: _Asking) -> None:
        root = tool.root or root
        said: Tool | str = "was not waited for: haftd is shutting down"
        marks: _Marks = {}
        hangs = False
        try:
            with asking.scope:
                marks = self._marks_of(tool, root)
                printed = await self.helpers.run(
                    tool, "schema", root=root, session="", timeout_s=_TIMEOUT_S
                )
                said = _read(tool, printed)
                hangs = isinstance(printed, Failed) and printed.kind == "time"
        except Exception:
            log.exception("a tool could not be asked", tool=tool.name)
            said = "could not be asked: the daemon failed, and its log says why"
        finally:
            del self._under_way[tool]
            asking.over.set()
        self.descriptions.learn(tool, root, said, anywhere=hangs)
        places = self._marks.setdefault(tool, {})
        while len(places) >= _MAX_ROOTS:
            del places[next(iter(places))]
        places[_ANSWERED if hangs or isinstance(said, Tool) else root] = marks
        if not isinstance(said, Tool):
            log.warning("a tool has not described itself", tool=tool.name, why=said)

    def _marks_of(self, tool: Tool, root: str) -> _Marks:
        """The files that the command names, as they are before it is run."""
        path = path_of(self.helpers.calls.place.environ)
        try:
            ready = resolve(
                tool, {}, CallContext(root=root, session="", handle="", action="schema", path=path)
            )
        except RpcError:
            return {}
        files = [os.path.join(ready.cwd, word) for word in ready.argv[:_MAX_WORDS]]  # noqa: PTH118
        if ready.argv and "/" not in ready.argv[0]:
            files[:1] = _up_to_the_first(ready.argv[0], path)
        return {file: _mark(file) for file in files}


def _up_to_the_first(name: str, path: str) -> list[str]:
    """The places at which a program of that name would be found instead, and where it is."""
    found = shutil.which(name, path=path)
    places = [f"{folder}/{name}" for folder in path.split(os.pathsep)]
    return places[: places.index(found) + 1] if found in places else places


def _read(tool: Tool, said: bytes | Failed) -> Tool | str:
    if isinstance(said, Failed):
        if said.kind == "start":
            return f"could not be started: {said.why.rstrip('.')}"
        last = said.stderr_tail.decode(errors="replace").strip().rpartition("\n")[2]
        last = "".join(c if c.isprintable() else " " for c in last)[:_MAX_STDERR_LENGTH]
        return f"{said.why} (it said: {last})" if last else said.why
    try:
        return read_description(tool, said)
    except Undescribed as undescribed:
        return str(undescribed)


def _mark(file: str) -> tuple[int, int, int] | None:
    """What changes when somebody puts another file there, or into it; None where there is none."""
    try:
        facts = os.stat(file)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size
