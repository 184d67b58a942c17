"""Calls with their resources: process tag, cgroup, file of a long call, access to the proxy, record.

For executions, helper commands, MCP servers, compilers, programs of mediated tools and of haftd.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog
from msgspec.structs import replace

from haft_protocol.errors import RpcError, spawn_failed
from haft_protocol.methods import Surface
from haftd.core.handles import Handle
from haftd.core.output_file import keep_file
from haftd.core.registry import SpawnKey
from haftd.host.cgroup import Cgroup
from haftd.host.files.installation import explain_search_path
from haftd.host.files.memory_folder import open_memory_folder
from haftd.host.files.own_files import find_own_file
from haftd.host.launch.spawn import explain_refusal
from haftd.host.limit_group import Containment, LimitGroup
from haftd.host.process.identity import Identity
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.record import Record
from haftd.host_calls.decisions import HostAccess
from haftd.launch_spec import Grant, LaunchSpec, Sandbox
from haftd.proxy.server import Proxy
from haftd.runtimes.base import Call, Mediation
from haftd.runtimes.wasm.plan import worker_launch
from haftd.runtimes.wasm.worker import VARIABLE as WORKER_VARIABLE
from haftd.tools.calls.confinement import (
    list_grants,
    make_program_sandbox,
    make_sandbox,
    mediated_policy,
    policy_in_force,
)
from haftd.tools.calls.environment import build, find_granted_variables, make_call_value
from haftd.tools.calls.resolve import CallContext, ResolvedCall, resolve
from haftd.tools.definitions.access import ALWAYS_INHERITED, NOTHING, AccessPolicy
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.runtime_names import MEDIATED, list_served_names
from haftd.tools.definitions.server_tools import find_server

log = structlog.get_logger("haftd.executions.call_factory")

_SERVER_VARIABLES = [
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
"""The daemon's variables that every MCP server gets: those that MCP's SDKs pass, the locale, time zone
and folders. `build` sets TERM."""


class LaunchSettings(msgspec.Struct, frozen=True):
    """Environment, names and folders for launches."""

    environ: Mapping[str, str]
    """Default environment of tools."""
    tag_home: str
    """Key of the runtime folder, the first part of a tag."""
    instance: str
    """Id of this run of the daemon, the second part of a tag."""
    calls: Path
    """Folder of the files of calls too long for an environment."""
    containment: Containment
    nofile: int
    """Original soft limit of descriptors."""
    default_root: str
    """Root of calls that name none: HOME."""
    socket: str
    """Path of the daemon's socket, for HAFT_SOCKET."""
    askpass: str | None = None
    outer: str = ""
    """Tags of the handles around this daemon, separated by colons."""
    own_paths: tuple[str, ...] = ()
    """Haft's files and folders, never writable in a sandbox."""
    definitions: str = ""
    """Folder of definitions: targets of its links are never writable in a sandbox."""
    list_installed: Callable[[], tuple[str, ...]] = tuple
    """Returns the paths from which haft's programs run code, never writable in a sandbox."""
    modules: str = ""
    """Folder of compiled WebAssembly modules."""
    answered_calls: tuple[Path, ...] = ()
    """Folders to try for files of calls whose answers may be secret: the first on a tmpfs is used."""


def find_askpass(programs: Iterable[str]) -> str | None:
    for program in programs:
        folder = os.path.dirname(program)  # noqa: PTH120
        helper = f"{folder}/haft-askpass"
        if folder.startswith("/") and os.access(helper, os.X_OK):
            return helper
    return None


class Prepared(msgspec.Struct, frozen=True):
    """Validated spawn. The id may still be refused, and a resource or an access rule at its start."""

    session: str
    id: str
    call_id: str | None
    """The client's key of the call: a repeated spawn gets the earlier handle."""
    tool: Tool
    args: dict[str, Any]
    context: CallContext
    resolved: ResolvedCall
    client_env: Mapping[str, str | None] | None
    """Variables of the client; None removes one. Without the dict the daemon's serve."""
    is_fed: bool = False
    """Standard input is another handle's output."""
    surface: Surface = "actions"
    splits_stderr: bool = False
    """Standard error has its own pipe, if the output is raw."""
    is_transient: bool = False
    """The handle is forgotten at its end."""

    def with_stdin(self, stdin: Literal["pipe", "null"]) -> Prepared:
        launch = self.resolved.launch._replace(stdin=stdin)
        return replace(self, resolved=replace(self.resolved, launch=launch))

    @property
    def key(self) -> SpawnKey:
        return SpawnKey(self.session, self.id, self.tool.name, self.call_id, self.args)


def _grant_call_file(
    sandbox: Sandbox | None, env: Mapping[str, str], settings: LaunchSettings
) -> Sandbox | None:
    """Return the sandbox, with leave to read the file of a long call; raise `RpcError` if the tool
    could change haft's files."""
    path = env.get("HAFT_CALL", "")
    _refuse_own_files((sandbox.grants if sandbox is not None else None) or (), settings)
    if sandbox is None or sandbox.grants is None or not path.startswith("/"):
        return sandbox
    return sandbox._replace(
        grants=(*sandbox.grants, Grant(os.path.realpath(path), frozenset({"read"})))
    )


def _refuse_own_files(grants: Iterable[Grant], settings: LaunchSettings) -> None:
    for grant in grants:
        if not grant.rights & {"create", "update", "delete"}:
            continue
        installed = settings.list_installed()
        try:
            own = find_own_file(
                grant.path,
                settings.own_paths,
                linked=settings.definitions,
                installed=installed,
            )
        except OSError as error:
            raise spawn_failed(
                f"its access rule for {grant.path} could not be checked, as a file or link on the way "
                f"was exchanged meanwhile: {(error.strerror or '').lower()}; start the tool again",
                reason="sandbox",
            ) from None
        if own:
            consequence = "the code of haft" if own in installed else "its rules"
            remedy = explain_search_path(own, settings.environ)
            raise spawn_failed(
                f"its access rule for {grant.path} lets it change haft's own {_describe_own_file(own)}, and "
                f"so {consequence}: grant a folder beside them, or call it with another root"
                f"{remedy and f', or {remedy}'}",
                reason="sandbox",
            )


def _describe_own_file(own: str) -> str:
    if os.path.isdir(own):  # noqa: PTH112
        return f"files in {own}"
    absent = "" if os.path.lexists(own) else ", which does not exist yet"
    return f"file {own}{absent}"


def _list_mediated_grants(policy: AccessPolicy, root: str) -> tuple[Grant, ...]:
    """Return all grants of a mediated tool: without rules about files, to change the root."""
    grants = list_grants(policy)
    return (Grant(root, frozenset({"update"})),) if grants is None else grants


def _choose_inherited(resolved: ResolvedCall) -> Callable[[str], bool] | None:
    """Return the test for variables that a process inherits; None for all. The worker of a
    mediated tool gets only `ALWAYS_INHERITED`."""
    if resolved.runtime == MEDIATED:
        return ALWAYS_INHERITED.__contains__
    return None if resolved.policy is None else resolved.policy.may_inherit


_Groups = tuple[Cgroup | None, LimitGroup | None]


class CallFactory(msgspec.Struct):
    """Makes the calls, and removes their resources with `clear_up`."""

    settings: LaunchSettings
    secret_env: Sequence[str]
    """Patterns of names of variables that are secret."""
    journal: Journal
    make_room: Callable[[], bool]
    """Frees file descriptors for a start; False if none could be freed."""
    proxy: Proxy
    _count: int = 0
    _files: dict[str, Path] = msgspec.field(default_factory=dict)
    """Files of calls too long for an environment."""

    def make_execution_call(self, handle: Handle, prepared: Prepared) -> Call:
        process_tag = self._make_process_tag()
        is_processless = prepared.tool.is_builtin or find_server(prepared.tool) is not None
        limits = prepared.resolved.launch.limits
        groups = (None, None) if is_processless else self._groups(str(process_tag), limits)
        try:
            return self._make_execution_call(handle, prepared, process_tag, groups)
        except BaseException:
            self._release(str(process_tag), groups)
            raise

    def change_arguments(self, call: Call, handle: Handle, prepared: Prepared) -> Call:
        """Return the call with the arguments of `prepared`, under the same tag and cgroup."""
        process_tag = ProcessTag.read(call.mark)
        if process_tag is None:
            raise AssertionError(f"the call's mark {call.mark!r} is not a process tag")
        return self._make_execution_call(
            handle, prepared, process_tag, (call.cgroup, call.limit_group)
        )

    def make_daemon_call(self, name: str, argv: Sequence[str], limits: Mapping[str, float]) -> Call:
        """Return the call of a configured program of haftd, which may show a window or notification."""
        desktop = dict.fromkeys(("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"), True)
        make_env = partial(self._build, overlay=desktop)
        return self._make_program_call(
            name, tuple(argv), self.settings.default_root, make_env, limits, "pipe"
        )

    def make_compiler_call(self, launch: LaunchSpec) -> Call:
        """Return the call of a process that compiles a module, outside any session.

        `launch` gives the program, folder, limits, sandbox and the worker's order.
        """
        make_env = partial(
            self._build,
            overlay={WORKER_VARIABLE: launch.env[WORKER_VARIABLE]},
            may_inherit=ALWAYS_INHERITED.__contains__,
            is_confined=True,
        )
        return self._make_program_call(
            "wasm", launch.argv, launch.cwd, make_env, launch.limits, "null", launch.sandbox
        )

    def make_server_call(
        self, name: str, argv: Sequence[str], cwd: str, env: Mapping[str, str | bool]
    ) -> Call:
        """Return the call of an MCP server, outside any session.

        Of the daemon's variables it gets `_SERVER_VARIABLES` and those that are True in `env`, as
        third-party code must not see the user's keys; False does not occur. `cwd` is absolute, empty or
        below `~`, which is the default root.
        """
        environ = self.settings.environ
        base = {key: environ[key] for key in _SERVER_VARIABLES if key in environ}
        # `build` takes a variable that is True from its base.
        for variable, value in env.items():
            if value is True and variable in environ:
                base[variable] = environ[variable]
        overlay = {key: value if isinstance(value, str) else True for key, value in env.items()}
        make_env = partial(self._build, base=base, secret_env=(), overlay=overlay)
        folder = self.settings.default_root if cwd in ("", "~") else cwd
        if folder.startswith("~/"):
            folder = f"{self.settings.default_root}/{folder[2:]}"
        return self._make_program_call(f"mcp.{name}", tuple(argv), folder, make_env, {}, "pipe")

    def make_helper_call(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: CallContext,
        client_env: Mapping[str, str | None] | None,
        wall_s: float,
    ) -> Call:
        """Return the call of a helper command, without input or handle; raises `RpcError`.

        It may run for `wall_s` seconds, or less by the definition's limits.
        """
        resolved = resolve(tool, args, context)
        launch = resolved.launch._replace(terminal=False)
        limits = {**launch.limits, "wall_s": min(wall_s, launch.limits.get("wall_s", wall_s))}
        make_env = partial(self._env, tool.name, replace(resolved, launch=launch), client_env)
        call = self._make_program_call(
            tool.name, launch.argv, launch.cwd, make_env, limits, "null", launch.sandbox
        )
        try:
            finished = self._finish_launch(resolved, call.launch, call.launch.env)
        except BaseException:
            self._release(call.mark, (call.cgroup, call.limit_group))
            raise
        return replace(call, launch=finished)

    def explain_sandbox_refusal(self, tool: Tool, root: str) -> str:
        """Return the error message of a start in `root` because of the tool's access rules; empty if it
        would start. A runtime that a template chooses counts as `stdio`."""
        runtime = tool.runtime if tool.runtime in list_served_names() else "stdio"
        try:
            policy = policy_in_force(tool, root, self.settings.environ)
            sandbox = make_sandbox(tool, policy, root, runtime)
            if runtime == MEDIATED:
                _refuse_own_files(
                    _list_mediated_grants(mediated_policy(tool, policy), root), self.settings
                )
            elif policy is not None and (tool.is_module or sandbox is not None):
                _refuse_own_files(list_grants(policy) or (), self.settings)
        except RpcError as refusal:
            return refusal.message
        why = "" if sandbox is None else explain_refusal(sandbox)
        return why and spawn_failed(why).message

    def clear_up(
        self, call: Call, confirmed: bool, report: Callable[[], None] | None = None
    ) -> None:
        """Remove a call's file, access to the proxy and cgroups, and record its end.

        Processes whose end is not `confirmed` keep their cgroups and their record for a recovery, and
        lose the file and the proxy. `report` is called before the record, which only a recovery reads.
        """
        self._release(call.mark, (call.cgroup, call.limit_group) if confirmed else (None, None))
        if report is not None:
            report()
        if confirmed:
            with self._log_os_error("record", call.mark):
                self.journal.end(call.mark)

    def record_stop(self, tag: str) -> None:
        """Record that the main process has ended, before `clear_up` records the end of all."""
        with self._log_os_error("record", tag):
            self.journal.stopped(tag)

    def _make_execution_call(
        self, handle: Handle, prepared: Prepared, process_tag: ProcessTag, groups: _Groups
    ) -> Call:
        tool, args, context = prepared.tool, prepared.args, prepared.context
        resolved, client_env = prepared.resolved, prepared.client_env
        cgroup, limit_group = groups
        tag = str(process_tag)

        record = self._recorder(
            process_tag.n,
            tag,
            cgroup,
            session=handle.session,
            id=handle.id,
            tool=tool.name,
            generation=handle.generation,
            # Arguments may be private.
            command=resolved.launch.argv[0] if resolved.launch.argv else tool.name,
            at=round(handle.started_at, 3),
        )

        # Runs an `outcome` tool again, which then reads the answers from its call.
        def with_answers(answers: Mapping[str, Any]) -> Call:
            answered = resolve(tool, args, replace(context, answers=dict(answers)))
            return replace(call, launch=make_launch(answered, is_answered=True))

        def make_launch(resolved: ResolvedCall, *, is_answered: bool = False) -> LaunchSpec:
            launch = resolved.launch._replace(
                stdin="pipe" if prepared.is_fed else resolved.launch.stdin,
                splits_stderr=prepared.splits_stderr
                and resolved.launch.output == "raw"
                and not resolved.launch.terminal,
                nofile=self.settings.nofile,
            )
            env = self._env(tool.name, resolved, client_env, tag, is_answered=is_answered)
            return self._finish_launch(resolved, launch, env)

        call = Call(
            tool=tool.name,
            launch=make_launch(resolved),
            mark=tag,
            runtime=resolved.runtime,
            record=record,
            make_room=self.make_room,
            cgroup=cgroup,
            limit_group=limit_group,
            builtin=tool.is_builtin,
            surface=prepared.surface,
            served=find_server(tool),
            save=partial(keep_file, handle.spool),
            arguments=args,
            refused_destination=partial(self.proxy.find_refused, tag),
            # A second run would find the input from another handle consumed.
            with_answers=None if prepared.is_fed else with_answers,
            mediation=self._mediation(prepared),
        )
        return call

    def _finish_launch(
        self, resolved: ResolvedCall, launch: LaunchSpec, env: Mapping[str, str]
    ) -> LaunchSpec:
        sandbox = _grant_call_file(launch.sandbox, env, self.settings)
        launch = launch._replace(env=env, sandbox=self._with_port(sandbox))
        policy = resolved.policy
        if not resolved.is_module or policy is None:
            return launch
        if resolved.runtime == MEDIATED:  # host calls serve its rules
            policy = NOTHING
        granted = [name for name in env if resolved.env_overlay.get(name) or policy.may_see(name)]
        folders = list_grants(policy) or ()
        _refuse_own_files(folders, self.settings)
        return worker_launch(
            launch,
            folders,
            [name for name in granted if not name.startswith("HAFT_")],
            self.settings.modules,
            resolved.context_json,
        )

    def _mediation(self, prepared: Prepared) -> Mediation | None:
        resolved, client_env, root = prepared.resolved, prepared.client_env, prepared.context.root
        policy = resolved.policy
        if resolved.runtime != MEDIATED or policy is None:
            return None
        environ, tool = self.settings.environ, prepared.tool.name
        sandbox = make_program_sandbox(policy, root)
        _refuse_own_files(_list_mediated_grants(policy, root), self.settings)
        names = [rule.name for rule in policy.env or ()]
        program_names = {name for rule in policy.commands or () for name in rule.envs}
        variables = find_granted_variables(
            environ, client_env, self.secret_env, policy.may_see, names
        )
        program_variables = find_granted_variables(
            environ, client_env, self.secret_env, program_names.__contains__, program_names
        )

        def make_program(
            argv: tuple[str, ...],
            folder: str,
            envs: tuple[str, ...],
            limits: Mapping[str, float],
        ) -> Call:
            def make_env(tag: str) -> dict[str, str]:
                return self._build(
                    tag,
                    client=client_env,
                    overlay=dict.fromkeys(envs, True),
                    may_inherit=ALWAYS_INHERITED.__contains__,
                    may_read=policy.may_read,
                    is_confined=True,
                    proxy=self._open_proxy_access(tool, sandbox, policy, tag),
                )

            return self._make_program_call(tool, argv, folder, make_env, limits, "pipe", sandbox)

        access = HostAccess(root, policy, variables, private={**variables, **program_variables})
        return Mediation(access, make_program, self.clear_up)

    def _make_program_call(
        self,
        name: str,
        argv: tuple[str, ...],
        cwd: str,
        make_env: Callable[[str], dict[str, str]],
        limits: Mapping[str, float],
        stdin: Literal["pipe", "null"],
        sandbox: Sandbox | None = None,
    ) -> Call:
        process_tag = self._make_process_tag()
        tag = str(process_tag)
        groups = cgroup, limit_group = self._groups(tag, limits)
        record = self._recorder(
            process_tag.n, tag, cgroup, tool=name, command=argv[0], at=round(time.time(), 3)
        )
        try:
            env = make_env(tag)
        except BaseException:
            self._release(tag, groups)
            raise
        return Call(
            tool=name,
            launch=LaunchSpec(
                argv,
                cwd,
                env,
                stdin=stdin,
                output="outcome",  # with standard error apart
                limits=limits,
                nofile=self.settings.nofile,
                sandbox=self._with_port(sandbox),
            ),
            mark=tag,
            record=record,
            make_room=self.make_room,
            cgroup=cgroup,
            limit_group=limit_group,
        )

    def _with_port(self, sandbox: Sandbox | None) -> Sandbox | None:
        if sandbox is None or not sandbox.is_proxied:
            return sandbox
        return sandbox._replace(proxy_port=self.proxy.port)

    def _open_proxy_access(
        self, tool: str, sandbox: Sandbox | None, policy: AccessPolicy | None, tag: str
    ) -> str:
        """Return the proxy's URL with a credential of this call; empty if it needs no proxy."""
        if sandbox is None or policy is None or not sandbox.is_proxied:
            return ""
        try:
            return self.proxy.admit(tag, tool, policy)
        except OSError as error:
            why = f"its network rules need a proxy, and the proxy cannot listen: {error.strerror}"
            raise spawn_failed(why, reason="resources") from None

    def _env(
        self,
        tool: str,
        resolved: ResolvedCall,
        client_env: Mapping[str, str | None] | None,
        tag: str,
        *,
        is_answered: bool = False,
    ) -> dict[str, str]:
        """`is_answered`: the call has answers to the tool's questions."""
        policy = resolved.policy
        return self._build(
            tag,
            client=client_env,
            overlay=resolved.env_overlay,
            terminal=resolved.launch.terminal,
            askpass=self.settings.askpass,
            call=make_call_value(
                resolved.context_json, self._call_file(tag, is_answered=is_answered)
            ),
            may_inherit=_choose_inherited(resolved),
            may_read=None if policy is None else policy.may_read,
            is_confined=resolved.launch.sandbox is not None,
            proxy=self._open_proxy_access(tool, resolved.launch.sandbox, policy, tag),
        )

    def _build(
        self, tag: str, base: Mapping[str, str] | None = None, **more: Any
    ) -> dict[str, str]:
        """Build a process's environment from `base`, by default the environment of tools."""
        return build(
            self.settings.environ if base is None else base,
            socket=self.settings.socket,
            outer=self.settings.outer,
            mark=tag,
            **{"secret_env": self.secret_env, "call": "", **more},
        )

    def _recorder(
        self, n: int, tag: str, cgroup: Cgroup | None, **fields: Any
    ) -> Callable[[Identity], None]:
        def record(identity: Identity) -> None:
            self.journal.start(
                Record(
                    n=n,
                    pid=identity.pid,
                    ticks=identity.ticks,
                    inode=identity.inode,
                    boot=identity.boot,
                    ns=identity.ns,
                    sid=identity.pid,  # the child calls setsid(2)
                    uid=os.getuid(),
                    mark=tag,
                    cgroup="" if cgroup is None else str(cgroup.path),
                    **fields,
                )
            )

        return record

    def _make_process_tag(self) -> ProcessTag:
        self._count += 1
        return ProcessTag(self.settings.tag_home, self.settings.instance, self._count)

    def _cgroup(self, tag: str) -> Cgroup | None:
        """Make a cgroup; None without delegation, when only tags identify the processes."""
        base = self.settings.containment.base
        if base is None:
            return None
        try:
            return Cgroup.create(base, tag)
        except OSError as error:
            log.warning("a call has no cgroup", mark=tag, error=error.strerror)
            return None

    def _groups(self, tag: str, limits: Mapping[str, float]) -> _Groups:
        cgroup, controllers = self._cgroup(tag), self.settings.containment.controllers
        try:
            counted = None if controllers is None else controllers.make_group(tag, limits, cgroup)
        except OSError as error:
            # Resource limits and the sums over its processes still hold the limits.
            log.warning(
                "a call has no cgroup that counts for its limits", mark=tag, error=error.strerror
            )
            counted = None
        return cgroup, counted

    def _call_file(self, tag: str, *, is_answered: bool) -> Callable[[bytes], str]:
        def write(data: bytes) -> str:
            folder = self._open_memory_folder() if is_answered else self.settings.calls
            try:
                path = folder / tag
                if self._files.get(tag, path) != path:
                    self._remove_file(tag)
                self._files[tag] = path
                if not is_answered:
                    # The state folder may have been removed.
                    for place in (folder.parent, folder):
                        with contextlib.suppress(FileExistsError):
                            place.mkdir(mode=0o700)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                with open(os.open(path, flags, 0o600), "wb") as file:
                    file.write(data)
            except OSError as error:
                why = f"its arguments cannot be written below {folder}: {error.strerror}"
                raise spawn_failed(why, reason="resources") from None
            return str(path)

        return write

    def _open_memory_folder(self) -> Path:
        """Return the folder of calls with answers, which may be secret and are never stored."""
        try:
            return open_memory_folder(self.settings.answered_calls)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            why = f"its answers cannot be kept in memory: {error.strerror}{place}"
            raise spawn_failed(why, reason="resources") from None

    def _remove_file(self, tag: str) -> None:
        if (path := self._files.pop(tag, None)) is not None:
            with self._log_os_error("file", tag):
                path.unlink(missing_ok=True)

    def _release(self, tag: str, groups: _Groups) -> None:
        cgroup, limit_group = groups
        self.proxy.revoke(tag)
        self._remove_file(tag)
        if limit_group is not None or cgroup is not None:
            with self._log_os_error("cgroup", tag):
                if limit_group is not None:
                    limit_group.remove()
                if cgroup is not None:
                    cgroup.remove()

    @contextlib.contextmanager
    def _log_os_error(self, resource: str, tag: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            log.warning(
                "a call's resource or record could not be updated",
                what=resource,
                mark=tag,
                error=error.strerror,
            )
