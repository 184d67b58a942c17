"""From a spawn to a use that is held: tool, arguments, admission, and the call a runtime gets.

Rules: everything here decides synchronously and in this order: what can be wrong with the call is
said before the id is taken; the id is taken before anything is made; whatever was made for a use
(cgroup, call file, record) is unmade when nothing of it is left.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog
import trio
from msgspec import UnsetType

from haft_protocol.errors import unsupported_runtime
from haft_protocol.methods import SpawnParams
from haftd.core.batch import SpawnKey
from haftd.core.handles import Handle
from haftd.core.registry import Registry
from haftd.core.spool import Spool
from haftd.host.cgroup import Cgroup
from haftd.host.identity import Identity
from haftd.host.journal import Journal
from haftd.host.mark import Mark
from haftd.host.record import Record
from haftd.inquiry.base import Origin
from haftd.inquiry.desk import Desk
from haftd.reviewing import Review, Reviewing
from haftd.runtimes.base import Call, Runtime
from haftd.settings import Settings
from haftd.supervisor import Supervisor
from haftd.tools import arguments
from haftd.tools.approving import mode_of, policy_of
from haftd.tools.catalogue import Catalogue
from haftd.tools.definition import Tool
from haftd.tools.environment import Askpass, build, call_value, path_of
from haftd.tools.resolve import CallContext, Invocation, resolve
from haftd.use import Entry, Use

__all__ = ["Gate", "Place", "Prepared", "Starter", "find_askpass"]

log = structlog.get_logger("haftd.starting")


@dataclass(frozen=True, slots=True)
class Place:
    """Where this daemon starts things: its environment, its names, its folders.

    `environ` is what a tool gets when the client sends none, `nofile` the soft limit of
    descriptors that the daemon itself was given, `base` the cgroup below which handles get theirs,
    `askpass` how tools ask for secrets, None where the helper is not installed.
    """

    environ: Mapping[str, str]
    home: str
    instance: str
    calls: Path
    base: Path | None
    nofile: int
    root: str
    askpass: Askpass | None = None


def find_askpass(programs: Iterable[str], socket: str) -> Askpass | None:
    """The helper `haft-askpass` in the folder of one of these programs, the first that has it."""
    for program in programs:
        folder = os.path.dirname(program)  # noqa: PTH120
        helper = f"{folder}/haft-askpass"
        if folder.startswith("/") and os.access(helper, os.X_OK):
            return Askpass(helper, socket)
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

    @property
    def key(self) -> SpawnKey:
        """What decides about a clash in a batch."""
        return SpawnKey(self.session, self.id, self.tool.name, self.call_id, self.args)


Gate = Callable[[Handle], Awaitable[Prepared]]
"""What a start has to pass while its handle is pending. It returns what is to run, which may have
other arguments than what was asked for; raises what `supervisor.Entry` may raise."""


@dataclass(slots=True)
class Starter:
    """Starts uses of tools."""

    place: Place
    settings: Settings
    catalogue: Catalogue
    registry: Registry
    journal: Journal
    runtimes: Mapping[str, Runtime]
    make_spool: Callable[[], Spool]
    news: Callable[[Handle], None]
    """Told when a handle asks or stops."""
    desk: Desk
    supervisor: Supervisor = field(init=False)
    _count: int = 0
    _files: dict[str, Path] = field(default_factory=dict)
    """The files of calls that are too long for an environment."""

    def prepare(self, session: str, params: SpawnParams) -> Prepared:
        """Find out all that can be wrong with a spawn before its id is taken; takes nothing."""
        named = None if isinstance(params.root, UnsetType) else params.root
        root = self.place.root if named is None else named
        call_id = None if isinstance(params.call_id, UnsetType) else params.call_id
        client = None if isinstance(params.env, UnsetType) else params.env
        tool = self.catalogue.ready(params.tool, named, params.args)
        args = arguments.check(tool, params.args)
        context = CallContext(
            root=root,
            session=session,
            handle=params.id,
            action="run",
            path=path_of(self.place.environ, client),
        )
        invocation = resolve(tool, args, context)
        if not tool.is_builtin and ("pty" if invocation.terminal else "stdio") not in self.runtimes:
            raise unsupported_runtime(tool.name, tool.runtime, "this daemon was built without it")
        if invocation.terminal and mode_of(tool, "result") != "unattended":
            why = "what a terminal shows is seen as it goes, and its definition wants its result reviewed"
            raise unsupported_runtime(tool.name, "pty", why)
        return Prepared(session, params.id, call_id, tool, args, context, invocation, client)

    def start(
        self,
        ready: Prepared,
        origin: Origin,
        gate: Gate | None = None,
        review: Review | None = None,
    ) -> tuple[Handle, Use | None, bool]:
        """Take the id and schedule the tool; the last is whether it was. `origin` is for its questions,
        `review` for its result. A `call_id` that made a handle before gives that one, with the use
        that is left of it, and starts nothing. Raises `RpcError`, and then nothing was taken."""
        admitted = self.registry.admit(
            trio.current_time(),
            session=ready.session,
            id=ready.id,
            tool=ready.tool.name,
            call_id=ready.call_id,
            args=ready.args,
            root=ready.context.root,
            make_spool=self.make_spool,
            wall=time.time(),
        )
        handle = admitted.handle
        if admitted.known:
            return handle, self.supervisor.use_of(handle), False
        handle.terminal = ready.invocation.terminal
        handle.on_news = self.news
        handle.policy = policy_of(ready.tool)
        try:
            call = self._call(handle, ready)
        except BaseException:
            self.registry.withdraw(handle)
            raise
        inquirer = self.desk.inquirer(handle, origin)
        entry = None if gate is None else self._entry(handle, ready, call, gate)
        reviewing = None if review is None else Reviewing(handle, self.make_spool(), review)
        use = self.supervisor.start(handle, self._runtime(call), call, inquirer, entry, reviewing)
        return handle, use, True

    def _runtime(self, call: Call) -> Runtime:
        return self.runtimes["builtin" if call.builtin else "pty" if call.terminal else "stdio"]

    def _entry(self, handle: Handle, ready: Prepared, call: Call, gate: Gate) -> Entry:
        """What a use passes before it runs: the gate, with a call that is as the gate says."""
        number = self._count

        async def entry() -> tuple[Runtime, Call]:
            passed = await gate(handle)
            if passed is ready:
                return self._runtime(call), call
            handle.terminal = passed.invocation.terminal
            changed = self._made(handle, passed, number, call.mark, call.cgroup)
            return self._runtime(changed), changed

        return entry

    def own(self, name: str, argv: Sequence[str], limits: Mapping[str, float]) -> Call:
        """A call of the daemon's own, not a tool's: recorded, marked and held as any other. The
        program may open a window, so it gets what leads to the user's desktop."""
        desktop = dict.fromkeys(("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"), True)

        def env_of(mark: str) -> dict[str, str]:
            return build(
                self.place.environ,
                secret_env=self.settings.daemon.secret_env,
                overlay=desktop,
                mark=mark,
                call="",
            )

        return self._errand(name, tuple(argv), self.place.root, env_of, limits, "pipe")

    def errand(
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
        return self._errand(tool.name, resolved.argv, resolved.cwd, env_of, limits, "null")

    def _errand(
        self,
        name: str,
        argv: tuple[str, ...],
        cwd: str,
        env_of: Callable[[str], dict[str, str]],
        limits: Mapping[str, float],
        stdin: Literal["pipe", "null"],
    ) -> Call:
        self._count += 1
        number, mark = self._count, str(Mark(self.place.home, self.place.instance, self._count))
        cgroup = self._cgroup(mark)
        record = self._recorder(
            number, mark, cgroup, tool=name, command=argv[0], at=round(time.time(), 3)
        )
        try:
            env = env_of(mark)
        except BaseException:
            self._unmake(mark, cgroup)
            raise
        return Call(
            tool=name,
            argv=argv,
            cwd=cwd,
            env=env,
            mark=mark,
            stdin=stdin,
            # Apart from standard error.
            output="outcome",
            limits=limits,
            nofile=self.place.nofile,
            record=record,
            make_room=self.registry.make_room,
            cgroup=cgroup,
        )

    def _env(
        self, resolved: Invocation, client: Mapping[str, str | None] | None, mark: str
    ) -> dict[str, str]:
        return build(
            self.place.environ,
            client=client,
            secret_env=self.settings.daemon.secret_env,
            overlay=resolved.env_overlay,
            terminal=resolved.terminal,
            askpass=self.place.askpass,
            mark=mark,
            call=call_value(resolved.context_json, self._call_file(mark)),
        )

    def settled(self, call: Call, confirmed: bool) -> None:
        """Unmake what was made for a use, now that nothing of it is left; what could not be ended
        stays recorded, for the next start. What cannot be unmade costs the next start a look."""
        self._unmake(call.mark, call.cgroup if confirmed else None)
        if confirmed:
            with self._told("record", call.mark):
                self.journal.end(call.mark)

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

    def _call(self, handle: Handle, ready: Prepared) -> Call:
        self._count += 1
        mark = str(Mark(self.place.home, self.place.instance, self._count))
        cgroup = None if ready.tool.is_builtin else self._cgroup(mark)
        try:
            return self._made(handle, ready, self._count, mark, cgroup)
        except BaseException:
            self._unmake(mark, cgroup)
            raise

    def _made(
        self, handle: Handle, ready: Prepared, number: int, mark: str, cgroup: Cgroup | None
    ) -> Call:
        tool, args, context = ready.tool, ready.args, ready.context
        invocation, client = ready.invocation, ready.client

        record = self._recorder(
            number,
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
                env=self._env(once_more, client, mark),
            )

        first = Call(
            tool=tool.name,
            argv=invocation.argv,
            cwd=invocation.cwd,
            env=self._env(invocation, client, mark),
            mark=mark,
            terminal=invocation.terminal,
            stdin=invocation.stdin,
            output=invocation.output,
            rows=invocation.rows,
            cols=invocation.cols,
            limits=invocation.limits,
            nofile=self.place.nofile,
            record=record,
            make_room=self.registry.make_room,
            cgroup=cgroup,
            builtin=tool.is_builtin,
            arguments=args,
            again=again,
        )
        return first

    def _recorder(
        self, number: int, mark: str, cgroup: Cgroup | None, **what: Any
    ) -> Callable[[Identity], None]:
        """What writes down each process of a call, so that it is found again after a crash."""

        def record(identity: Identity) -> None:
            self.journal.start(
                Record(
                    n=number,
                    pid=identity.pid,
                    ticks=identity.ticks,
                    inode=identity.inode,
                    boot=identity.boot,
                    ns=identity.ns,
                    sid=identity.pid,
                    uid=os.getuid(),
                    mark=mark,
                    cgroup="" if cgroup is None else str(cgroup.path),
                    **what,
                )
            )

        return record

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
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
            return str(path)

        return write
