"""Assembly of the `Daemon` and its `RpcContext` from settings and recovery; no sockets, no signals."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Literal

import msgspec
import structlog
import trio
from msgspec import UNSET
from msgspec.structs import replace

from haft_protocol.methods import Problem
from haft_protocol.paths import PathError, cache_above, data_folder
from haft_protocol.states import Notice
from haftd import __version__
from haftd.audit import Audit, make_input_fields
from haftd.caller import Caller
from haftd.client_requests import Clients
from haftd.config.inquiry_settings import InquirySettings
from haftd.config.mcp_settings import McpServer
from haftd.config.options import ConfigError, Paths
from haftd.config.settings import Settings, load_settings
from haftd.core.handles import Handle
from haftd.core.registry import Registry
from haftd.core.sessions import Sessions, Turns
from haftd.core.spool import Budget, Spool
from haftd.daemon import Daemon, Facts, Reload
from haftd.executions.call_factory import CallFactory, LaunchSettings, find_askpass
from haftd.executions.descriptions import Describer, builtin_for
from haftd.executions.helpers import HelperRunner
from haftd.executions.starter import Starter
from haftd.executions.supervisor import Supervisor
from haftd.host.files.id_log import IdLog
from haftd.host.files.installation import find_programs, list_installation
from haftd.host.files.own_files import list_ways
from haftd.host.files.spool_folder import SpoolFolder
from haftd.host.launch.program import Missing, resolve
from haftd.host.limit_group import Containment
from haftd.host.process.own_tag import OUTER, make_home
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.recovery import Report
from haftd.inquiries.backend import Backend
from haftd.inquiries.client import ClientBackend
from haftd.inquiries.command import CommandBackend
from haftd.inquiries.kind import Timeouts
from haftd.inquiries.llm.keys import NoKey, read_key
from haftd.inquiries.memory import AnswerCache
from haftd.inquiries.router import InquiryRouter
from haftd.inquiries.static import StaticBackend
from haftd.methods import services_of, spawning, table
from haftd.methods.access import confine
from haftd.methods.descriptions import missing_descriptions
from haftd.methods.session import leave
from haftd.methods.spawn import reserve
from haftd.methods.wait import finish_due
from haftd.notices.output_watcher import OutputWatcher
from haftd.notices.queues import NoticeDelivery, NoticeQueues
from haftd.proxy.server import Proxy
from haftd.rpc.connection import RpcContext
from haftd.rpc.dispatch import Dispatcher
from haftd.runtimes.base import Call
from haftd.runtimes.builtin import BUILTINS, BuiltinRuntime
from haftd.runtimes.entry_points import PackageRuntime
from haftd.runtimes.mcp.environment import Environment
from haftd.runtimes.mcp.runtime import McpRuntime
from haftd.runtimes.mcp.servers import Servers
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.runtimes.terminal.runtime import TerminalRuntime
from haftd.runtimes.vfs.runtime import VfsRuntime
from haftd.runtimes.wasm.runtime import CompiledModules, WasmRuntime
from haftd.subscriptions import Subscriptions
from haftd.threads import run_in_thread
from haftd.tools.calls.environment import Variables
from haftd.tools.catalogue import USER_SHELL, Catalogue, Definitions
from haftd.tools.definitions.definition import BUILTIN
from haftd.tools.definitions.runtime_names import find_added_runtimes, find_runtime_problems
from haftd.tools.definitions.server_tools import ServedTool, ServerState
from haftd.tools.projects.trust import Trust

Level = Literal["info", "warning", "error", "critical"]

log = structlog.get_logger("haftd")

_SHARE_OF_STOPPED = 4
"""One of so many descriptors is for output files of stopped handles."""


class Parts(msgspec.Struct, frozen=True):
    paths: Paths
    settings: Settings
    problems: list[Problem]
    instance: str
    journal: Journal
    report: Report
    containment: Containment
    environ: Variables
    nofile: int
    """Tools' soft limit of descriptors."""
    descriptors: int
    """The daemon's limit of descriptors."""


def assemble(
    parts: Parts,
    handles: trio.Nursery,
    stop: Callable[[str | None], None],
    wake_expiry: Callable[[], None],
) -> Daemon:
    """Wire the daemon.

    `handles` is the handles' nursery; daemon/shutdown calls `stop`, an execution's end
    `wake_expiry`.
    """
    own = parts.settings.daemon
    registry = Registry(
        max_handles=own.max_handles,
        max_per_session=own.max_handles_session,
        retain_s=own.retain_stopped_s,
        retain_max=own.retain_stopped_max,
        open_max=parts.descriptors // _SHARE_OF_STOPPED,
    )
    state, home = Path(parts.paths.state), make_home(Path(parts.paths.runtime.folder))
    ids = IdLog(state / f"ids-{home}", registry.used)
    for used in ids.load():
        registry.remember_used(*used)
    _remember_lost(registry, parts.report)
    registry.on_used = ids.note
    budget = Budget(parts.settings.spool.total)
    catalogue = Catalogue(
        parts.paths.definitions,
        parts.settings.toolpack.enable,
        builtin=(*BUILTIN, USER_SHELL),
        trust=Trust(parts.paths.trust),
        packages=sys.path,
    )
    notices = NoticeQueues()
    turns = Turns()
    subscriptions = Subscriptions(
        handles, lambda handle: supervisor.execution_of(handle), wake_expiry
    )
    sessions = Sessions()
    clients = Clients()
    audit = Audit(parts.paths.audit)

    delivery = NoticeDelivery(notices, subscriptions.push_notice)

    def decided(event: str, *, answer: object = UNSET, **more: object) -> None:
        audit.record(event, **more, **({} if answer is UNSET else make_input_fields(answer)))

    call_factory = CallFactory(
        settings=LaunchSettings(
            environ=parts.environ,
            tag_home=home,
            instance=parts.instance,
            calls=state / "calls",
            containment=parts.containment,
            nofile=parts.nofile,
            default_root=parts.environ.get("HOME") or "/",
            socket=parts.paths.socket,
            askpass=find_askpass(find_programs()),
            outer=parts.environ.get(OUTER, ""),
            own_paths=(
                parts.paths.config,
                parts.paths.tools,
                parts.paths.state,
                parts.paths.trust,
                parts.paths.socket,
                parts.paths.modules,
                *_list_copies(parts.environ),
                *((parts.paths.runtime.folder,) if parts.paths.runtime.ours else ()),
            ),
            definitions=parts.paths.tools,
            # Kept from the first call on, which is that of the first sandboxed tool.
            list_installed=cache(partial(_list_installed_ways, parts.environ)),
            modules=parts.paths.modules,
            answered_calls=parts.paths.answered_calls,
        ),
        secret_env=own.secret_env,
        journal=parts.journal,
        make_room=registry.close_files,
        proxy=Proxy(handles),
    )

    def backends(inquiry: InquirySettings) -> list[Backend]:
        return _make_backends(inquiry, parts, clients, sessions, call_factory)

    inquiries = InquiryRouter(
        backends(parts.settings.inquiry),
        ClientBackend(clients, lambda name: _list_members(sessions, name)),
        record=decided,
        cache=AnswerCache(turns.is_begun),
        timeouts=Timeouts(own.question_timeout_s, own.approval_timeout_s),
    )

    def clear_up(call: Call, confirmed: bool) -> None:
        call_factory.clear_up(call, confirmed, report=finish_due)
        wake_expiry()

    supervisor = Supervisor(
        handles,
        grace_s=own.abort_grace_ms / 1000,
        withdraw=registry.withdraw,
        clear_up=clear_up,
        wake_expiry=wake_expiry,
    )

    def stopped(handle: Handle) -> None:
        if (execution := supervisor.execution_of(handle)) is not None:
            call_factory.record_stop(execution.mark)

    registry.on_stopped = stopped
    registry.on_forgotten = subscriptions.remove_handle
    registry.on_restored = subscriptions.add_handle

    def start_server(name: str, server: McpServer) -> Call:
        return call_factory.make_server_call(name, server.argv, server.cwd, server.env)

    def listed(name: str, tools: tuple[ServedTool, ...] | str) -> None:
        previous = catalogue.servers.get(name)
        if previous is None:
            return  # no longer configured
        if isinstance(tools, str):
            catalogue.update_server(replace(previous, fault=tools))
            return
        catalogue.update_server(replace(previous, tools=tools, fault=""))
        if previous.had_other(tools):
            text = f"The MCP server `{name}` has changed its tools; list the tools again."
            notify("mcp.tools_changed", "info", text, sessions.names())

    def lost(name: str, message: str, marks: Iterable[str]) -> None:
        affected = [
            execution.handle.session for mark in marks if (execution := supervisor.with_tag(mark))
        ]
        notify("mcp.disconnected", "error", message, dict.fromkeys(affected))

    def notify(kind: str, level: Level, message: str, names: Iterable[str]) -> None:
        notice = Notice(kind=kind, level=level, message=message, at=time.time())
        for session in names:
            notices.add_event(session, notice)
            subscriptions.push_notice(session, notice)

    servers = Servers(
        parts.settings.mcp,
        Environment(
            nursery=handles,
            grace_s=own.abort_grace_ms / 1000,
            environ=parts.environ,
            make_call=start_server,
            clear_up=call_factory.clear_up,
            listed=listed,
            lost=lost,
        ),
    )
    catalogue.configure_servers(_list_states(parts.settings))
    servers.start_eager(parts.settings.mcp)
    helpers = HelperRunner(call_factory)
    describer = Describer(helpers, catalogue.descriptions, handles, servers)
    builtins = {**BUILTINS, "describe_tools": builtin_for(catalogue, describer)}
    modules = CompiledModules(handles, call_factory.make_compiler_call, clear_up)
    starter = Starter(
        call_factory=call_factory,
        catalogue=catalogue,
        on_state_change=delivery.deliver_state_change,
        registry=registry,
        inquiries=inquiries,
        supervisor=supervisor,
        runtimes={
            **{name: PackageRuntime(entry) for name, entry in find_added_runtimes().items()},
            "stdio": ProcessRuntime(),
            "pty": TerminalRuntime(),
            "wasm": WasmRuntime(modules),
            "vfs": VfsRuntime(modules),
            "builtin": BuiltinRuntime(builtins),
            "mcp": McpRuntime(servers),
        },
        make_spool=_make_spool_factory(parts.paths, parts.settings, budget, registry.close_files),
    )
    catalogue.on_changed = subscriptions.push_tools_change
    inquiries.on_open = subscriptions.push_inquiry
    inquiries.on_close = subscriptions.push_inquiry_end
    facts = Facts(
        version=__version__,
        socket=parts.paths.socket,
        started_at=time.time(),
        began=trio.current_time(),
        path=parts.environ.get("PATH", ""),
        managed="INVOCATION_ID" in parts.environ,
        cache=cache_above(sys.prefix, os.path.exists) or UNSET,
        containment="processes" if parts.containment.base is None else "cgroup",
        recovered=count_recovered(parts.report),
        unconfirmed=parts.report.unconfirmed,
        budget=budget,
        problems=[
            *parts.problems,
            *_find_backend_problems(parts, parts.settings),
            *find_runtime_problems(),
            *catalogue.problems,
        ],
    )
    return Daemon(
        settings=parts.settings,
        registry=registry,
        sessions=sessions,
        clients=clients,
        inquiries=inquiries,
        nursery=handles,
        supervisor=supervisor,
        catalogue=catalogue,
        starter=starter,
        helpers=helpers,
        describer=describer,
        servers=servers,
        facts=facts,
        audit=audit,
        notices=notices,
        subscriptions=subscriptions,
        watching=OutputWatcher(handles, delivery.deliver_output),
        turns=turns,
        reload=_make_reloader(
            parts,
            catalogue,
            facts,
            lambda changed: inquiries.replace(backends(changed)),
            servers,
        ),
        stop=stop,
    )


def _list_copies(environ: Variables) -> Iterator[str]:
    """Yield the folder of the service's copies of haft, which the next daemon may be started from."""
    try:
        yield data_folder(environ)
    except PathError:
        pass  # no folder, no copy


def _list_installed_ways(environ: Variables) -> tuple[str, ...]:
    paths = dict.fromkeys(list_installation(environ))
    return tuple(dict.fromkeys(way for path in paths for way in list_ways(path)))


def _list_states(settings: Settings) -> Iterator[ServerState]:
    for name, server in settings.mcp.items():
        yield ServerState(name, server.tools)


def _list_members(sessions: Sessions, name: str) -> list[Caller]:
    return [member for member in sessions.members(name) if isinstance(member, Caller)]


def _make_backends(
    inquiry: InquirySettings,
    parts: Parts,
    clients: Clients,
    sessions: Sessions,
    call_factory: CallFactory,
) -> list[Backend]:
    def command() -> Backend:
        own = inquiry.command
        if own is None:
            raise AssertionError("the backend `command` was chosen without `[inquiry.command]`")
        limits = {"wall_s": own.timeout_s}
        return CommandBackend(
            lambda: call_factory.make_daemon_call("inquiry", own.argv, limits),
            call_factory.clear_up,
        )

    def model() -> Backend:
        # Slow import.
        from haftd.inquiries.llm.backend import LlmBackend

        if inquiry.llm is None:
            raise AssertionError("the backend `llm` was chosen without `[inquiry.llm]`")
        return LlmBackend(inquiry.llm, parts.environ)

    factories: dict[str, Callable[[], Backend]] = {
        "client": lambda: ClientBackend(clients, lambda name: _list_members(sessions, name)),
        "command": command,
        "llm": model,
        "static": lambda: StaticBackend(inquiry.static),
    }
    return [factories[name]() for name in inquiry.backends if name != "llm" or _has_http_client()]


def _has_http_client() -> bool:
    return importlib.util.find_spec("httpx") is not None


def _find_backend_problems(parts: Parts, settings: Settings) -> list[Problem]:
    return [*_find_missing_program(parts, settings), *_find_missing_model(parts, settings)]


def _find_missing_program(parts: Parts, settings: Settings) -> list[Problem]:
    command = settings.inquiry.command
    if command is None or "command" not in settings.inquiry.backends:
        return []
    try:
        resolve(command.argv[0], parts.environ.get("PATH"), parts.environ.get("HOME") or "/")
    except Missing as missing:
        why = missing.message.partition(". ")[0]  # the advice is for definitions
        return [
            Problem(
                file=parts.paths.config,
                key="inquiry.command.argv",
                message=why.removesuffix("."),
                advice="begin `argv` with a program that can be run, preferably by its full path",
            )
        ]
    return []


def _find_missing_model(parts: Parts, settings: Settings) -> list[Problem]:
    inquiry = settings.inquiry
    if inquiry.llm is None or "llm" not in inquiry.backends:
        return []
    if not _has_http_client():
        return [
            Problem(
                file=parts.paths.config,
                key="inquiry.llm",
                message="no model answers questions: the HTTP client is not installed",
                advice="install haftd with the extra `llm`, in the way haft was installed: uv tool install "
                "'haftd[llm]', pipx install --force 'haftd[llm]' or pip install 'haftd[llm]'; in a clone, '.[llm]'",
            )
        ]
    try:
        read_key(inquiry.llm, parts.environ)
    except NoKey as no:
        return [Problem(file=parts.paths.config, key="inquiry.llm", message=str(no))]
    return []


def make_rpc_context(daemon: Daemon) -> RpcContext:
    limits = daemon.settings.limits
    clients = daemon.clients
    services = services_of(daemon)
    dispatcher = Dispatcher(
        table(daemon, services),
        partial(reserve, services),
        limits,
        log,
        spawning(services),
        clients.on_reply,
        partial(missing_descriptions, daemon.starter, daemon.describer),
        daemon.registry.get,
    )
    rpc_context = RpcContext(
        dispatcher,
        limits,
        log,
        partial(leave, services),
        clients=clients,
        confine=partial(confine, daemon.supervisor),
    )
    daemon.facts.connections = lambda: len(rpc_context.connections)
    daemon.facts.refused = lambda: dict(rpc_context.connections.refused + clients.refused)
    return rpc_context


def count_recovered(report: Report) -> dict[str, int]:
    return {
        "ended": len(report.ended),
        "lost": len(report.lost),
        "dropped": len(report.dropped),
        "killed": report.killed,
    }


def _remember_lost(registry: Registry, report: Report) -> None:
    """Add a stopped handle for each lost execution; those stopped earlier have expired."""
    now, wall = trio.current_time(), time.time()
    for record in (*report.ended, *report.lost, *report.keep):
        if record.id and not record.is_stopped:
            registry.restore_lost(
                now,
                session=record.session,
                id=record.id,
                tool=record.tool,
                generation=record.generation,
                command=record.command,
                wall=record.at,
                age=max(0.0, wall - record.at),
            )


def _make_spool_factory(
    paths: Paths, settings: Settings, budget: Budget, make_room: Callable[[], bool]
) -> Callable[[], Spool]:
    folder = SpoolFolder(Path(paths.spool), make_home(Path(paths.runtime.folder)), make_room)
    return partial(Spool, settings.spool.memory, settings.spool.disk, folder, budget)


_RELOADED = ("toolpack", "inquiry", "mcp")
"""Sections applied by a reload."""


def _make_reloader(
    parts: Parts,
    catalogue: Catalogue,
    facts: Facts,
    take_inquiry: Callable[[InquirySettings], None],
    servers: Servers,
) -> Reload:
    """Return the serialised reload function, which reads files in a thread.

    `take_inquiry` applies a changed `[inquiry]`; other changed settings are problems.
    """
    turn = trio.Lock()
    applied = parts.settings

    def read() -> tuple[Settings, list[Problem], Definitions]:
        settings, problems = load_settings(parts.paths, applied)
        uses_model = settings.inquiry.llm is not None and "llm" in settings.inquiry.backends
        if uses_model and _has_http_client():
            # Slow import.
            import_module("haftd.inquiries.llm.backend")
        return settings, problems, catalogue.read(settings.toolpack.enable)

    async def reload() -> None:
        nonlocal applied
        settings = applied
        try:
            async with turn:
                settings, problems, definitions = await run_in_thread(read)
                changed = servers.replace(settings.mcp)
                catalogue.configure_servers(_list_states(settings), changed)
                catalogue.apply(definitions)
                before, applied = applied, settings
                if settings.inquiry != before.inquiry:
                    take_inquiry(settings.inquiry)
        except ConfigError as error:
            problems = [Problem(file=parts.paths.config, key="", message=str(error))]
        else:
            problems += [
                Problem(
                    file=parts.paths.config,
                    key=name,
                    message="takes effect at the next start",
                    advice="run `haft stop`, which ends all handles, then start it again",
                    level="note",
                )
                for name in settings.__struct_fields__
                if name not in _RELOADED
                and getattr(settings, name) != getattr(parts.settings, name)
            ]
        unanswering = _find_backend_problems(parts, settings)
        facts.problems = [*problems, *unanswering, *find_runtime_problems(), *catalogue.problems]
        log.info("reloaded", tools=len(catalogue), problems=len(facts.problems))

    return reload
