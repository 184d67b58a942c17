"""The call that a runtime gets, and what is made for it: a mark, a cgroup, a file, a record.

Rules: everything here decides synchronously. A call of an execution, of a helper command and
of the daemon's own are made the same way: numbered, marked, recorded, each in a cgroup where there
are any. What was made for one (cgroup, file, record) is unmade when nothing of it is left, or at
once where the call could not be made. Who is to run it, and under which id, is not known here.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog

from haft_protocol.errors import spawn_failed
from haftd.core.batch import SpawnKey
from haftd.core.handles import Handle
from haftd.core.output_file import keep_file
from haftd.host.cgroup import Cgroup
from haftd.host.process.identity import Identity
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.record import Record
from haftd.runtimes.base import Call
from haftd.tools.calls.environment import build, call_value
from haftd.tools.calls.resolve import CallContext, Invocation, resolve
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.server_tools import server_of

log = structlog.get_logger("haftd.executions.calls")

_OF_SERVERS = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
]
"""Of the daemon's environment, what every MCP server gets: what the SDKs hand on, and the locale."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where this daemon starts things: its environment, its names, its folders.

    `environ` is what a tool gets when the client sends none, `nofile` the soft limit of
    descriptors that the daemon itself was given, `base` the cgroup below which handles get theirs,
    `socket` where the daemon serves, `askpass` the helper through which tools ask for secrets, None
    where it is not installed, `outer` the marks of the handles in which this daemon itself runs.
    """

    environ: Mapping[str, str]
    home: str
    instance: str
    calls: Path
    base: Path | None
    nofile: int
    root: str
    socket: str
    askpass: str | None = None
    outer: str = ""


def find_askpass(programs: Iterable[str]) -> str | None:
    """The helper `haft-askpass` in the folder of one of these programs, the first that has it."""
    for program in programs:
        folder = os.path.dirname(program)  # noqa: PTH120
        helper = f"{folder}/haft-askpass"
        if folder.startswith("/") and os.access(helper, os.X_OK):
            return helper
    return None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A spawn with which nothing is wrong but, perhaps, its id."""

    session: str
    id: str
    call_id: str | None
    tool: Tool
    args: dict[str, Any]
    context: CallContext
    invocation: Invocation
    client: Mapping[str, str | None] | None
    is_fed: bool = False
    """Whether its standard input is the output of another handle."""

    @property
    def key(self) -> SpawnKey:
        """What decides about a clash in a batch."""
        return SpawnKey(self.session, self.id, self.tool.name, self.call_id, self.args)


@dataclass(slots=True)
class Calls:
    """Makes calls, and unmakes what it made for them."""

    place: Place
    secret_env: Sequence[str]
    journal: Journal
    make_room: Callable[[], bool]
    _count: int = 0
    _files: dict[str, Path] = field(default_factory=dict)
    """The files of calls that are too long for an environment."""

    def of_use(self, handle: Handle, ready: Prepared) -> Call:
        """The call of a use of a tool."""
        mark = self._mark()
        is_processless = ready.tool.is_builtin or server_of(ready.tool) is not None
        cgroup = None if is_processless else self._cgroup(str(mark))
        try:
            return self._of_use(handle, ready, mark, cgroup)
        except BaseException:
            self._unmake(str(mark), cgroup)
            raise

    def changed(self, call: Call, handle: Handle, ready: Prepared) -> Call:
        """The call of a use, as `of_use` made it, with other arguments."""
        mark = ProcessTag.read(call.mark)
        if mark is None:
            raise AssertionError("a call of a use has a mark")
        return self._of_use(handle, ready, mark, call.cgroup)

    def own(self, name: str, argv: Sequence[str], limits: Mapping[str, float]) -> Call:
        """A call of the daemon's own, not a tool's: recorded, marked and held as any other. The
        program may open a window, so it gets what leads to the user's desktop."""
        desktop = dict.fromkeys(("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"), True)

        def env_of(mark: str) -> dict[str, str]:
            return build(
                self.place.environ,
                secret_env=self.secret_env,
                overlay=desktop,
                socket=self.place.socket,
                outer=self.place.outer,
                mark=mark,
                call="",
            )

        return self._of_program(name, tuple(argv), self.place.root, env_of, limits, "pipe")

    def server(
        self, name: str, argv: Sequence[str], cwd: str, env: Mapping[str, str | bool]
    ) -> Call:
        """A call of an MCP server, which no session owns. It gets a short environment and `env`, in which True hands
        on a variable of the daemon's: a server is a stranger's program, and needs none of the user's keys but those
        that it is given."""
        environ = self.place.environ
        base = {one: environ[one] for one in _OF_SERVERS if one in environ}
        for variable, value in env.items():
            if value is True and variable in environ:
                base[variable] = environ[variable]
        overlay = {one: value for one, value in env.items() if isinstance(value, str)}

        def env_of(mark: str) -> dict[str, str]:
            return build(
                base,
                overlay={**dict.fromkeys(env, True), **overlay},
                socket=self.place.socket,
                outer=self.place.outer,
                mark=mark,
                call="",
            )

        folder = self.place.root if cwd in ("", "~") else cwd
        if folder.startswith("~/"):
            folder = f"{self.place.root}/{folder[2:]}"
        return self._of_program(f"mcp.{name}", tuple(argv), folder, env_of, {}, "pipe")

    def helper(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: CallContext,
        client: Mapping[str, str | None] | None,
        wall_s: float,
    ) -> Call:
        """A call of a tool's command that is no use of the tool: on pipes, with nothing to read, and
        nobody holds it. Raises `RpcError`."""
        resolved = replace(resolve(tool, args, context), terminal=False)
        limits = {**resolved.limits, "wall_s": min(wall_s, resolved.limits.get("wall_s", wall_s))}
        env_of = partial(self._env, resolved, client)
        return self._of_program(tool.name, resolved.argv, resolved.cwd, env_of, limits, "null")

    def clear_up(self, call: Call, confirmed: bool) -> None:
        """Unmake what was made for a call, now that nothing of it is left; what could not be ended
        stays recorded, for the next start. What cannot be unmade costs the next start a look."""
        self._unmake(call.mark, call.cgroup if confirmed else None)
        if confirmed:
            with self._told("record", call.mark):
                self.journal.end(call.mark)

    def stopped(self, mark: str) -> None:
        """Record that the handle has stopped, for a daemon that may have to end what is left of it."""
        with self._told("record", mark):
            self.journal.stopped(mark)

    def _of_use(
        self, handle: Handle, ready: Prepared, mark: ProcessTag, cgroup: Cgroup | None
    ) -> Call:
        tool, args, context = ready.tool, ready.args, ready.context
        invocation, client = ready.invocation, ready.client

        record = self._recorder(
            mark,
            cgroup,
            session=handle.session,
            id=handle.id,
            tool=tool.name,
            generation=handle.generation,
            # Arguments may hold what is nobody else's business.
            command=invocation.argv[0] if invocation.argv else tool.name,
            at=round(handle.started_at, 3),
        )

        def again(answers: Mapping[str, Any]) -> Call:
            once_more = resolve(tool, args, replace(context, answers=dict(answers)))
            return replace(
                first,
                argv=once_more.argv,
                cwd=once_more.cwd,
                env=self._env(once_more, client, str(mark)),
            )

        first = Call(
            tool=tool.name,
            argv=invocation.argv,
            cwd=invocation.cwd,
            env=self._env(invocation, client, str(mark)),
            mark=str(mark),
            runtime=invocation.runtime,
            terminal=invocation.terminal,
            stdin="pipe" if ready.is_fed else invocation.stdin,
            output=invocation.output,
            rows=invocation.rows,
            cols=invocation.cols,
            limits=invocation.limits,
            nofile=self.place.nofile,
            record=record,
            make_room=self.make_room,
            cgroup=cgroup,
            builtin=tool.is_builtin,
            served=server_of(tool),
            save=partial(keep_file, handle.spool),
            arguments=args,
            # Run again, it would find its input read.
            again=None if ready.is_fed else again,
        )
        return first

    def _of_program(
        self,
        name: str,
        argv: tuple[str, ...],
        cwd: str,
        env_of: Callable[[str], dict[str, str]],
        limits: Mapping[str, float],
        stdin: Literal["pipe", "null"],
    ) -> Call:
        mark = self._mark()
        cgroup = self._cgroup(str(mark))
        record = self._recorder(mark, cgroup, tool=name, command=argv[0], at=round(time.time(), 3))
        try:
            env = env_of(str(mark))
        except BaseException:
            self._unmake(str(mark), cgroup)
            raise
        return Call(
            tool=name,
            argv=argv,
            cwd=cwd,
            env=env,
            mark=str(mark),
            stdin=stdin,
            # Apart from standard error.
            output="outcome",
            limits=limits,
            nofile=self.place.nofile,
            record=record,
            make_room=self.make_room,
            cgroup=cgroup,
        )

    def _env(
        self, resolved: Invocation, client: Mapping[str, str | None] | None, mark: str
    ) -> dict[str, str]:
        return build(
            self.place.environ,
            client=client,
            secret_env=self.secret_env,
            overlay=resolved.env_overlay,
            terminal=resolved.terminal,
            askpass=self.place.askpass,
            socket=self.place.socket,
            outer=self.place.outer,
            mark=mark,
            call=call_value(resolved.context_json, self._call_file(mark)),
        )

    def _recorder(
        self, mark: ProcessTag, cgroup: Cgroup | None, **what: Any
    ) -> Callable[[Identity], None]:
        """What writes down each process of a call, so that it is found again after a crash."""

        def record(identity: Identity) -> None:
            self.journal.start(
                Record(
                    n=mark.n,
                    pid=identity.pid,
                    ticks=identity.ticks,
                    inode=identity.inode,
                    boot=identity.boot,
                    ns=identity.ns,
                    sid=identity.pid,
                    uid=os.getuid(),
                    mark=str(mark),
                    cgroup="" if cgroup is None else str(cgroup.path),
                    **what,
                )
            )

        return record

    def _mark(self) -> ProcessTag:
        self._count += 1
        return ProcessTag(self.place.home, self.place.instance, self._count)

    def _cgroup(self, mark: str) -> Cgroup | None:
        """A cgroup for the handle where there are any; without it, its processes are told apart as
        they are where there is no delegation."""
        if self.place.base is None:
            return None
        try:
            return Cgroup.create(self.place.base, mark)
        except OSError as error:
            log.warning("no cgroup for a handle", mark=mark, error=error.strerror)
            return None

    def _call_file(self, mark: str) -> Callable[[bytes], str]:
        def write(data: bytes) -> str:
            path = self._files[mark] = self.place.calls / mark
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            try:
                for folder in (path.parent.parent, path.parent):
                    # The state folder may have been removed.
                    with contextlib.suppress(FileExistsError):
                        folder.mkdir(mode=0o700)
                with open(os.open(path, flags, 0o600), "wb") as file:
                    file.write(data)
            except OSError as error:
                why = f"its arguments cannot be written below {path.parent}: {error.strerror}"
                raise spawn_failed(why, reason="resources") from None
            return str(path)

        return write

    def _unmake(self, mark: str, cgroup: Cgroup | None) -> None:
        with self._told("file", mark):
            if (path := self._files.pop(mark, None)) is not None:
                path.unlink(missing_ok=True)
        with self._told("cgroup", mark):
            if cgroup is not None:
                cgroup.remove()

    @contextlib.contextmanager
    def _told(self, what: str, mark: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            log.warning("could not be cleared up", what=what, mark=mark, error=error.strerror)
