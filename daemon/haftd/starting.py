"""From a spawn to a use that is held: tool, arguments, admission, and the call a runtime gets.

Rules: everything here decides synchronously and in this order: what can be wrong with the call is
said before the id is taken; the id is taken before anything is made; whatever was made for a use
(cgroup, call file, record) is unmade when nothing of it is left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog
import trio
from msgspec import UnsetType

from haft_protocol.errors import RpcError, unsupported_runtime
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
from haftd.runtimes.base import Call, Runtime
from haftd.settings import Settings
from haftd.supervisor import Supervisor, Use
from haftd.tools import arguments
from haftd.tools.catalogue import Catalogue
from haftd.tools.definition import Tool
from haftd.tools.environment import build, call_value, path_of
from haftd.tools.resolve import CallContext, Invocation, resolve

__all__ = ["Place", "Starter"]

log = structlog.get_logger("haftd.starting")


@dataclass(frozen=True, slots=True)
class Place:
    """Where this daemon starts things: its environment, its names, its folders.

    `environ` is what a tool gets when the client sends none, `nofile` the soft limit of
    descriptors that the daemon itself was given, `base` the cgroup below which handles get theirs.
    """

    environ: Mapping[str, str]
    home: str
    instance: str
    calls: Path
    base: Path | None
    nofile: int
    root: str


@dataclass(slots=True)
class Starter:
    """Starts uses of tools. `settings` and `catalogue` are replaced by a reload."""

    place: Place
    settings: Settings
    catalogue: Catalogue
    registry: Registry
    journal: Journal
    runtimes: Mapping[str, Runtime]
    make_spool: Callable[[], Spool]
    supervisor: Supervisor = field(init=False)
    _count: int = 0

    def key(self, session: str, params: SpawnParams) -> SpawnKey:
        """What decides about a clash in a batch; a call that cannot be right is judged by its id."""
        root = self.place.root if isinstance(params.root, UnsetType) else params.root
        call_id = None if isinstance(params.call_id, UnsetType) else params.call_id
        args = params.args
        try:
            args = arguments.check(self.catalogue.find(params.tool, root), args)
        except RpcError:
            call_id = None
        return SpawnKey(session, params.id, params.tool, call_id, args)

    def start(self, session: str, params: SpawnParams) -> tuple[Handle, Use | None]:
        """Take the id and schedule the tool. A `call_id` that made a handle before gives that one,
        with no use. Raises `RpcError`, and then nothing was taken."""
        root = self.place.root if isinstance(params.root, UnsetType) else params.root
        call_id = None if isinstance(params.call_id, UnsetType) else params.call_id
        client = None if isinstance(params.env, UnsetType) else params.env
        tool = self.catalogue.find(params.tool, root)
        args = arguments.check(tool, params.args)
        if (known := self.registry.known(session, call_id, tool.name, args)) is not None:
            return known, None
        context = CallContext(
            root=root,
            session=session,
            handle=params.id,
            action="run",
            path=path_of(self.place.environ, client),
        )
        invocation = resolve(tool, args, context)
        kind = "pty" if invocation.terminal else "stdio"
        runtime = self.runtimes.get(kind)
        if runtime is None:
            raise unsupported_runtime(tool.name, kind, "this daemon was built without it")
        handle = self.registry.admit(
            trio.current_time(),
            session=session,
            id=params.id,
            tool=tool.name,
            call_id=call_id,
            args=args,
            root=root,
            make_spool=self.make_spool,
            wall=time.time(),
        ).handle
        handle.terminal = invocation.terminal
        try:
            call = self._call(handle, tool, args, context, invocation, client)
        except BaseException:
            self.registry.withdraw(handle)
            raise
        return handle, self.supervisor.start(handle, runtime, call)

    def settled(self, call: Call, confirmed: bool) -> None:
        """Unmake what was made for a use, now that nothing of it is left; what could not be ended
        stays recorded, for the next start."""
        value = call.env.get("HAFT_CALL", "")
        if value.startswith(str(self.place.calls)):
            Path(value).unlink(missing_ok=True)
        if not confirmed:
            return
        if call.cgroup is not None:
            call.cgroup.remove()
        try:
            self.journal.end(call.mark)
        except OSError as error:
            # Costs the next start one look at a process that is gone.
            log.warning("an end could not be recorded", mark=call.mark, error=error.strerror)

    def _call(
        self,
        handle: Handle,
        tool: Tool,
        args: dict[str, Any],
        context: CallContext,
        invocation: Invocation,
        client: Mapping[str, str | None] | None,
    ) -> Call:
        self._count += 1
        number = self._count
        mark = str(Mark(self.place.home, self.place.instance, number))
        cgroup = self._cgroup(mark)

        def env_of(resolved: Invocation) -> dict[str, str]:
            return build(
                self.place.environ,
                client=client,
                secret_env=self.settings.daemon.secret_env,
                overlay=resolved.env_overlay,
                terminal=resolved.terminal,
                mark=mark,
                call=call_value(resolved.context_json, self._call_file(mark)),
            )

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
                    session=handle.session,
                    id=handle.id,
                    tool=tool.name,
                    generation=handle.generation,
                    # Arguments may hold what is nobody else's business.
                    command=invocation.argv[0],
                    at=round(handle.started_at, 3),
                )
            )

        def again(answers: Mapping[str, Any]) -> Call:
            once_more = resolve(tool, args, replace(context, answers=dict(answers)))
            return replace(first, argv=once_more.argv, cwd=once_more.cwd, env=env_of(once_more))

        first = Call(
            tool=tool.name,
            argv=invocation.argv,
            cwd=invocation.cwd,
            env=env_of(invocation),
            mark=mark,
            terminal=invocation.terminal,
            stdin=invocation.stdin,
            output=invocation.output,
            rows=invocation.rows,
            cols=invocation.cols,
            limits=invocation.limits,
            nofile=self.place.nofile,
            record=record,
            cgroup=cgroup,
            again=again,
        )
        return first

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
            path = self.place.calls / mark
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
            return str(path)

        return write
