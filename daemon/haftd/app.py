"""Start, structure and stop of the daemon.

Nurseries: handles outermost, then connections, then listeners; the stop runs in reverse. Only
failures before READY end the daemon, with an exit status.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog
import trio
from msgspec import UNSET, to_builtins

from haft_protocol.methods import Problem, WebSocketInfo
from haft_protocol.states import EndedBy
from haftd import startup
from haftd.composition import Parts, assemble, count_recovered, make_rpc_context
from haftd.config.command_line import EXIT_CONFIG
from haftd.config.options import ConfigError, Options, Paths
from haftd.config.settings import Settings, load_settings
from haftd.core.registry import Registry
from haftd.daemon import Daemon
from haftd.host.clock import MonotonicClock
from haftd.host.files.lockfile import DaemonLock, LockHeld
from haftd.host.launch.gate_child import keep_spare
from haftd.host.priority import prefer_daemon
from haftd.host.process.ancestry import become_subreaper
from haftd.host.process.own_tag import make_home
from haftd.host.process.privacy import become_private
from haftd.host.readiness import LateEvent
from haftd.host.recovery.guardian import Guardian
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.recovery import Recovery
from haftd.host.tree.reaper import Reaper
from haftd.logs import configure
from haftd.rpc.connection import RpcContext
from haftd.rpc.transports import socket_activation
from haftd.rpc.transports.handshake import Gatekeeper
from haftd.rpc.transports.unix import serve_unix
from haftd.sd_notify import Notifier, feed_watchdog, read_watchdog_interval_s
from haftd.startup import EXIT_HELD, CannotStart
from haftd.upkeep import Upkeep

_CLOSE_GRACE_S = 2.0
"""Wait for clients to read their last replies."""

log = structlog.get_logger("haftd")


def run(options: Options, paths: Paths, instance: str) -> int:
    """Run the daemon; return the exit status. Changes signal handlers, the working folder and the
    attributes of this process."""
    become_private(instance)
    sink = configure(options.log_level, options.log_format, env=os.environ)
    os.chdir("/")
    stop_handler = _StopHandler()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop_handler)
    try:
        settings, problems = load_settings(paths)
        startup.check_descriptors()
        startup.prepare_folders(paths)
        with contextlib.ExitStack() as stack:
            # The interpreter restores default handlers at exit; a repeated signal would then kill
            # the process.
            for signum in (signal.SIGTERM, signal.SIGINT):
                stack.callback(signal.signal, signum, signal.SIG_IGN)
            locks = startup.take_locks(paths, problems, stack)
            app = _App(paths, settings, problems, instance, locks, stop_handler)
            return trio.run(app.serve, clock=MonotonicClock())
    except LockHeld as held:
        log.error("haftd is already running", pid=held.pid, socket=paths.socket)
        return EXIT_HELD
    except ConfigError as error:
        log.error("haftd cannot start", reason=str(error))
        return EXIT_CONFIG
    except CannotStart as error:
        log.error("haftd cannot start", reason=str(error))
        return error.status
    finally:
        if sink.dropped:
            with contextlib.suppress(OSError):
                sys.stderr.write(f"haftd: {sink.dropped} log lines were dropped\n")


class _StopHandler:
    """Handler of stop signals before and after the tasks that handle them: ends the process with status 0
    at once, unless the daemon is `leaving`."""

    def __init__(self) -> None:
        self.leaving = False

    def __call__(self, signum: int, frame: object) -> None:
        if not self.leaving:
            os._exit(0)


class _App:
    def __init__(
        self,
        paths: Paths,
        settings: Settings,
        problems: list[Problem],
        instance: str,
        locks: Sequence[DaemonLock],
        stop_handler: _StopHandler,
    ) -> None:
        self.stop_handler = stop_handler
        self.paths = paths
        self.settings = settings
        self.problems = problems
        self.instance = instance
        self.locks = locks
        self.notifier = Notifier.from_environment(os.environ)
        self.watchdog_s = read_watchdog_interval_s(os.environ, os.getpid())
        self.supervised = "INVOCATION_ID" in os.environ
        self.asked = trio.Event()
        self.asked_by: str | None = None
        self.woken = LateEvent()
        self._registry: Registry | None = None
        self._until_expiry = trio.CancelScope()

    async def serve(self) -> int:
        paths, problems = self.paths, self.problems
        nofile = startup.raise_descriptor_limit()
        become_subreaper()
        prefer_daemon()
        containment = startup.prepare_containment(self.settings, paths, problems)
        journal, report, recovery = startup.recover_processes(
            paths, self.instance, containment.parents
        )
        activated = socket_activation.take(os.environ, os.getpid())
        problems += [
            Problem(file="(inherited sockets)", key="", message=text) for text in activated.problems
        ]
        if activated.rpc:
            paths = self.paths = paths.with_socket(activated.rpc[0].getsockname())
        environ = await startup.make_environment(paths)
        parts = Parts(
            paths=paths,
            settings=self.settings,
            problems=problems,
            instance=self.instance,
            journal=journal,
            report=report,
            containment=containment,
            environ=environ,
            nofile=nofile,
            descriptors=startup.read_descriptor_limit(),
        )
        with contextlib.ExitStack() as stack:
            ws, credentials = startup.open_websocket(
                self.settings.websocket, activated.ws, paths, problems, stack
            )
            # Last: clients that reach the socket need the files beside it.
            rpc = startup.open_unix_listeners(activated.rpc, Path(paths.socket))
            upkeep = Upkeep(paths, self.locks, journal, rpc, credentials)
            stack.callback(upkeep.close)
            for lock in self.locks:
                lock.announce(paths.socket)
            async with trio.open_nursery() as handles:
                daemon = assemble(parts, handles, self._ask_to_stop, self._wake)
                stack.enter_context(keep_spare(lambda: not daemon.supervisor.has_scheduled))
                if credentials is not None:
                    host, port = ws[0].getsockname()[:2]
                    daemon.facts.websocket = WebSocketInfo(host=host, port=port)
                    daemon.facts.prove = credentials.prove
                for problem in daemon.facts.problems:
                    log.warning("configuration", **to_builtins(problem))
                rpc_context = make_rpc_context(daemon)
                await handles.start(Reaper().run)
                await handles.start(self._handle_signals, daemon)
                handles.start_soon(self._retain, daemon.registry)
                if recovery is not None:
                    handles.start_soon(self._finish_recovery, recovery, journal, daemon)
                if not self.supervised:
                    handles.start_soon(self._keep_guardian, containment.parents)
                if self.watchdog_s is not None:
                    handles.start_soon(feed_watchdog, self.notifier, self.watchdog_s)
                async with trio.open_nursery() as connections:
                    async with trio.open_nursery() as listeners:
                        listeners.start_soon(
                            self._keep_reachable,
                            upkeep,
                            listeners,
                            connections,
                            daemon,
                            rpc_context,
                        )
                        if credentials is not None:
                            from haftd.rpc.transports.websocket import (
                                serve_websocket,  # see `startup`
                            )

                            for sock in ws:
                                keeper = self._gatekeeper(credentials.token)
                                listeners.start_soon(
                                    serve_websocket, sock, connections, rpc_context, keeper
                                )
                        # A collection would take a twentieth of the start, for little garbage.
                        gc.freeze()
                        gc.enable()
                        self.notifier.ready(f"serving {paths.socket}")
                        log.info(
                            "serving",
                            socket=paths.socket,
                            pid=os.getpid(),
                            **count_recovered(report),
                        )
                        if daemon.facts.cache:
                            log.warning(
                                "the program is in a cache, which can be emptied while it runs",
                                cache=daemon.facts.cache,
                                advice="install haftd, for example with `uv tool install haftd`",
                            )
                        await self.asked.wait()
                        listeners.cancel_scope.cancel()
                    await self._stop(daemon, rpc_context)
                    connections.cancel_scope.cancel()
                handles.cancel_scope.cancel()
        with contextlib.suppress(OSError):
            journal.compact()
        journal.close()
        startup.remove_saved(paths)
        log.info("stopped", by=self.asked_by)
        self.notifier.close()
        return 0

    def _gatekeeper(self, token: str) -> Gatekeeper:
        websocket = self.settings.websocket
        return Gatekeeper(
            token,
            hosts=("127.0.0.1", "localhost") if websocket is None else websocket.hosts,
            origins=() if websocket is None else websocket.origins,
            clock=trio.current_time,
        )

    def _ask_to_stop(self, by: str | None) -> None:
        if not self.asked.is_set():
            self.asked_by = by
            self.asked.set()

    def _wake(self) -> None:
        self.woken.set()
        self.woken = LateEvent()
        if self._registry is not None:
            due = self._registry.next_expiry(trio.current_time())
            if self._registry.has_transient():
                # Such a handle may be let go by a reader that leaves after this.
                due = trio.current_time()
            if due is not None and due < self._until_expiry.deadline:
                self._until_expiry.deadline = due

    async def _handle_signals(
        self, daemon: Daemon, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        heeded = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with trio.open_signal_receiver(*heeded) as signals:
            async with trio.open_nursery() as nursery:
                task_status.started()
                async for signum in signals:
                    if signum == signal.SIGHUP:
                        nursery.start_soon(self._reload, daemon)
                    elif not self.asked.is_set():
                        self._ask_to_stop(None)
                    else:
                        log.warning("asked to stop again: all handles are killed")
                        for execution in daemon.supervisor.executions():
                            execution.kill()

    async def _reload(self, daemon: Daemon) -> None:
        self.notifier.reloading(time.monotonic())
        await daemon.reload()
        self.notifier.ready(f"serving {self.paths.socket}")

    async def _keep_reachable(
        self,
        upkeep: Upkeep,
        listeners: trio.Nursery,
        connections: trio.Nursery,
        daemon: Daemon,
        rpc_context: RpcContext,
    ) -> None:
        """Serve the socket; stop the daemon once clients cannot reach it."""

        async def serve(sock: socket.socket) -> None:
            await serve_unix(sock, connections, rpc_context)

        listeners.start_soon(self._stop_if_replaced, upkeep, daemon, rpc_context)
        upkeep.listen(listeners, serve)
        while True:
            why = await upkeep.keep()
            if not len(rpc_context.connections):
                break
            # Connected clients still use running handles.
        log.error("clients can no longer reach this daemon; all handles are ended", reason=why)
        self._ask_to_stop(None)

    async def _stop_if_replaced(
        self, upkeep: Upkeep, daemon: Daemon, rpc_context: RpcContext
    ) -> None:
        """Stop once another process serves the socket's path and no handle is live."""
        await upkeep.replaced.wait()
        while len(rpc_context.connections) or daemon.supervisor.executions():
            if len(rpc_context.connections):
                await rpc_context.connections.wait_for_close(math.inf)
            else:
                await self.woken.wait()
        log.warning("no handle is left: this daemon makes way for the one at its socket")
        self._ask_to_stop(None)

    async def _keep_guardian(self, bases: Sequence[Path]) -> None:
        """Keep a guardian process if no service manager cleans up after a crash."""
        guardian: Guardian | None = None
        try:
            while True:
                guardian = Guardian.start(
                    home=make_home(Path(self.paths.runtime.folder)),
                    instance=self.instance,
                    journal=Path(self.paths.runtime.handles_lock),
                    lock=Path(self.paths.runtime.recover_lock),
                    bases=bases,
                )
                await trio.lowlevel.wait_readable(guardian.pidfd)
                log.warning("the guardian has ended; another one is started", pid=guardian.pid)
                guardian.stop()
                guardian = None
                await trio.sleep(1)
        except OSError as error:
            log.warning(
                "there is no guardian: after a crash, the next start cleans up", error=str(error)
            )
        finally:
            if guardian is not None:
                guardian.stop()

    async def _finish_recovery(self, recovery: Recovery, journal: Journal, daemon: Daemon) -> None:
        report = await startup.finish_recovery(recovery, journal)
        daemon.facts.recovered = count_recovered(report)
        daemon.facts.unconfirmed = report.unconfirmed
        if report.killed:
            log.warning("processes of an earlier daemon were found late", **count_recovered(report))

    async def _retain(self, registry: Registry) -> None:
        self._registry = registry
        while True:
            now = trio.current_time()
            for handle in registry.sweep(now):
                handle.spool.close()
            due = registry.next_expiry(now)
            self._until_expiry = trio.CancelScope(
                deadline=math.inf if due is None else max(due, now + 0.01)
            )
            with self._until_expiry:
                await trio.sleep_forever()

    async def _stop(self, daemon: Daemon, rpc_context: RpcContext) -> None:
        self.stop_handler.leaving = True
        self.notifier.stopping("ending what runs")
        daemon.starter.stopping = True
        daemon.inquiries.stop()
        daemon.describer.stop()
        by = EndedBy("shutdown", UNSET if self.asked_by is None else self.asked_by)
        while executions := daemon.supervisor.executions():
            await daemon.supervisor.abort_all(by, executions)
        daemon.servers.close()
        await rpc_context.connections.finish(_CLOSE_GRACE_S)
