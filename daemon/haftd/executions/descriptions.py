"""Self-descriptions of tools: each program is asked once, on first need; a tool file once for its
functions with an equal start. The builtin tool `describe_tools` is their text.

The answer or failure holds until definition or program file changes.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

import msgspec
import structlog
import trio
from msgspec.structs import replace

from haft_protocol.ellipsis import shorten
from haft_protocol.errors import RpcError
from haft_protocol.methods import ToolDescription
from haftd.arrival_order import ArrivalOrder, Place
from haftd.runtimes.base import Call, RuntimeContext, ToolFailed
from haftd.runtimes.builtin import Builtin
from haftd.runtimes.mcp.servers import Servers
from haftd.runtimes.process.helper import Failed
from haftd.tools.calls.environment import path_of
from haftd.tools.calls.resolve import CallContext, ResolvedCall, resolve
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.functions import is_function
from haftd.tools.definitions.self_description import Descriptions, Undescribed, read_description
from haftd.tools.lists.full_description import page

from .helpers import HelperRunner

log = structlog.get_logger("haftd.executions.descriptions")

_TIMEOUT_S = 10.0
_MAX_WORDS = 5
"""Words of a command that may name a file: an interpreter's script comes early."""
_MAX_STDERR_LENGTH = 200

_DAEMON_FAILED = "could not be asked: the daemon failed; its log has the reason"

_FileStats = dict[str, tuple[int, int, int] | None]
"""A program's files, also missing files, with stat data that changes with the file."""

_MAX_ROOTS = 32
"""Roots in which a program's files are watched."""

_ANSWERED = ""
"""Key, instead of a root, of the answer for all."""


class _DescriptionRun(msgspec.Struct, eq=False):
    """Running helper; `scope` cancels it for all waiters."""

    over: trio.Event = msgspec.field(default_factory=trio.Event)
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)


class Describer(msgspec.Struct, eq=False):
    """Cache of descriptions; runs helpers in tasks of `nursery`."""

    helpers: HelperRunner
    descriptions: Descriptions
    nursery: trio.Nursery
    servers: Servers
    _under_way: dict[Tool, _DescriptionRun] = msgspec.field(default_factory=dict)
    _waiting: dict[str, ArrivalOrder] = msgspec.field(default_factory=dict)
    _watched_files: WeakKeyDictionary[Tool, dict[str, _FileStats]] = msgspec.field(
        default_factory=WeakKeyDictionary
    )

    def lacking(self, tools: Iterable[Tool], root: str) -> list[Tool]:
        lacking = []
        for tool in tools:
            if self._is_changed(tool, root):
                self._watched_files.pop(tool)
                self.descriptions.forget(tool)
            if self.descriptions.lacks(tool, root):
                lacking.append(tool)
        return lacking

    def _is_changed(self, tool: Tool, root: str) -> bool:
        places, root = self._watched_files.get(tool, {}), tool.root or root
        watched = [places[place] for place in (root, _ANSWERED) if place in places]
        return any(stats != _file_stat(path) for files in watched for path, stats in files.items())

    async def ask(self, tools: Iterable[Tool], root: str) -> None:
        """Wait until each tool has a description or failure; cancellation stops no run."""
        async with trio.open_nursery() as nursery:
            for group in self._grouped(tools, root):
                nursery.start_soon(self._describe, group, root)

    @contextlib.contextmanager
    def place(self, name: str) -> Iterator[Place]:
        """Take a call's place among those that wait for the descriptions of the tool `name`."""
        order = self._waiting.setdefault(name, ArrivalOrder())
        try:
            with order.place() as place:
                yield place
        finally:
            if not order:
                del self._waiting[name]

    def stop(self) -> None:
        for run in self._under_way.values():
            run.scope.cancel()

    def _grouped(self, tools: Iterable[Tool], root: str) -> list[list[Tool]]:
        """Group the functions that one run of their file describes: those with an equal start."""
        groups: list[tuple[object, list[Tool]]] = []
        for tool in tools:
            start = self._start_of_function(tool, tool.root or root)
            same = [group for other, group in groups if other == start] if start else []
            if same:
                same[0].append(tool)
            else:
                groups.append((start, [tool]))
        return [group for _, group in groups]

    async def _describe(self, tools: Sequence[Tool], root: str) -> None:
        # A failure in another root says nothing about this one.
        while lacking := [tool for tool in tools if self.descriptions.lacks(tool, root)]:
            run = next(filter(None, map(self._under_way.get, lacking)), None)
            if run is None:
                run = _DescriptionRun()
                self._under_way.update(dict.fromkeys(lacking, run))
                self.nursery.start_soon(self._ask, lacking, root, run)
            await run.over.wait()

    async def _ask(self, tools: Sequence[Tool], root: str, run: _DescriptionRun) -> None:
        """Run the program of the first of the tools, which describes them all."""
        tool = tools[0]
        root = tool.root or root
        printed: bytes | Failed | str = "was not waited for: haftd is shutting down"
        files: _FileStats = {}
        try:
            with run.scope:
                files = self._file_stats(tool, root)
                printed = await self.helpers.run(
                    tool, "schema", root=root, session="", timeout_s=_TIMEOUT_S
                )
        except Exception:
            log.exception("a tool could not be asked", tool=tool.name)
            printed = _DAEMON_FAILED
        finally:
            for asked in tools:
                del self._under_way[asked]
            run.over.set()
        for asked in tools:
            self._learn(asked, root, printed, files)

    def _learn(
        self, tool: Tool, root: str, printed: bytes | Failed | str, files: _FileStats
    ) -> None:
        try:
            outcome = printed if isinstance(printed, str) else _read(tool, printed)
        except Exception:
            log.exception("a description could not be read", tool=tool.name)
            outcome = _DAEMON_FAILED
        hangs = isinstance(printed, Failed) and printed.kind == "time"
        self.descriptions.learn(tool, root, outcome, anywhere=hangs)
        places = self._watched_files.setdefault(tool, {})
        while len(places) >= _MAX_ROOTS:
            del places[next(iter(places))]
        places[_ANSWERED if hangs or isinstance(outcome, Tool) else root] = files
        if not isinstance(outcome, Tool):
            log.warning("a tool has not described itself", tool=tool.name, why=outcome)

    def _start_of_function(self, tool: Tool, root: str) -> tuple[object, ...] | None:
        """Return the start without the call, on which the description does not depend; None for
        another program."""
        resolved = self._resolved(tool, root) if is_function(tool) else None
        return None if resolved is None else (tool.root, replace(resolved, context_json=""))

    def _resolved(self, tool: Tool, root: str) -> ResolvedCall | None:
        path = path_of(self.helpers.call_factory.settings.environ)
        context = CallContext(root=root, session="", handle="", action="schema", path=path)
        try:
            return resolve(tool, {}, context)
        except RpcError:
            return None

    def _file_stats(self, tool: Tool, root: str) -> _FileStats:
        if (resolved := self._resolved(tool, root)) is None:
            return {}
        path, launch = path_of(self.helpers.call_factory.settings.environ), resolved.launch
        files = [os.path.join(launch.cwd, word) for word in launch.argv[:_MAX_WORDS]]  # noqa: PTH118
        if launch.argv and "/" not in launch.argv[0]:
            files[:1] = _path_entries(launch.argv[0], path)
        return {file: _file_stat(file) for file in files}


def _path_entries(name: str, path: str) -> list[str]:
    # Slow import.
    import shutil

    program = shutil.which(name, path=path)
    places = [f"{folder}/{name}" for folder in path.split(os.pathsep)]
    return places[: places.index(program) + 1] if program in places else places


def _read(tool: Tool, output: bytes | Failed) -> Tool | str:
    if isinstance(output, Failed):
        if output.kind == "start":
            return f"could not be started: {output.why.rstrip('.')}"
        last = output.stderr_tail.decode(errors="replace").strip().rpartition("\n")[2]
        last = shorten("".join(c if c.isprintable() else " " for c in last), _MAX_STDERR_LENGTH)
        return f"{output.why} (its last line: {last})" if last else output.why
    try:
        return read_description(tool, output)
    except Undescribed as undescribed:
        return undescribed.args[0]  # type: ignore[no-any-return]


def _file_stat(file: str) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(file)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def builtin_for(catalogue: Catalogue, describer: Describer) -> Builtin:
    async def describe_tools(call: Call, context: RuntimeContext) -> str:
        names: Sequence[str] = call.arguments["tools"]
        root = call.launch.cwd
        asked: list[Tool] = []
        for name in names:
            with contextlib.suppress(RpcError):  # `describe` reports it
                asked += catalogue.find_self_describing(name, root)
        await describer.ask(describer.lacking(asked, root), root)
        described: list[ToolDescription] = []
        refusals: list[str] = []
        for name in names:
            try:
                described.append(catalogue.describe(name, root, call.surface))
            except RpcError as refusal:
                refusals.append(refusal.message)
        if not described:
            raise ToolFailed("\n".join(refusals))
        return "\n\n".join([page(described), *refusals])

    return describe_tools
