"""A started process: its bytes, its end, its descendants.

The leader's end is reported after all bytes available by then. Output that another process holds is
read for `_DETACH_AFTER_S` more. Bytes are also moved during an abort: a process that cleans up may
print. Limits on a sum are polled, as no kernel event reports one.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog
import trio
from msgspec.structs import replace

from haft_protocol.states import EndedBy, LeftBehind
from haftd.core.termination import EXIT, LIMIT, LOST, Termination
from haftd.host import pump, readiness
from haftd.host.launch import connect_supervisor
from haftd.host.launch.launched_process import Exit, LaunchedProcess
from haftd.host.launch.program import LaunchFailed
from haftd.host.launch.spawn import launch
from haftd.host.limit_group import LimitGroup
from haftd.host.process.status import read_status
from haftd.host.readiness import LateEvent
from haftd.host.tree.process_tree import ProcessTree, take_turn
from haftd.runtimes.base import Call, RuntimeContext, StartFailed, is_cancellation

from .failure_hint import FailureHint
from .interpreter import Interpreter, ToolResult, exit_state
from .resource_limits import FIRST_PAUSE_S, ResourceLimits

log = structlog.get_logger("haftd.runtimes.process.child")

_DETACH_AFTER_S = 0.5
_POLL_AFTER_OUTPUT_S = 0.5
_readers = trio.CapacityLimiter(64)
"""Threads that read sums, one for a handle: such a read may wait for a process of the handle."""
_LOOKS_AT_MASK, _LOOK_S = 5, 0.002


class Output(msgspec.Struct, eq=False):
    """Descriptor to read."""

    fd: int
    take: Callable[[bytes], None]
    """Consumer of the bytes."""
    keep_up: Callable[[], Awaitable[None] | None] = lambda: None
    """As in `pump.Reader`."""
    on_end: Callable[[], None] = lambda: None
    """Called at the end of file, unless the process ends first."""
    at_end: bool = False
    is_watched: bool = False


def _launch(call: Call) -> LaunchedProcess:
    """Launch; once more after EMFILE if descriptors could be freed, as that failure precedes the record."""
    start = partial(
        launch, call.launch, call.record, cgroup=call.cgroup, limit_group=call.limit_group
    )
    try:
        return start()
    except LaunchFailed as failed:
        if not failed.descriptors_exhausted or not call.make_room():
            raise
    return start()


def _failure_hint(call: Call) -> FailureHint | None:
    sandbox = call.launch.sandbox
    if sandbox is None and not call.explained:
        return None
    return FailureHint(
        call.refused_destination,
        is_sandboxed=sandbox is not None,
        has_network=sandbox is not None and sandbox.network,
        explained=call.explained,
    )


class Child:
    """Started process and descendants; the context manager leaves none."""

    def __init__(
        self,
        launched: LaunchedProcess,
        tree: ProcessTree,
        context: RuntimeContext,
        limits: ResourceLimits,
        tool: str = "",
        failure_hint: FailureHint | None = None,
        stdin_head: bytes = b"",
    ) -> None:
        self.launched = launched
        self.stdin_head = stdin_head
        self.tree = tree
        self._tool = tool
        self._failure_hint = failure_hint
        self._context = context
        self._limits = limits
        self._outputs: Sequence[Output] = ()
        self._has_begun = False
        self._early_io: tuple[Callable[[], Awaitable[None]], ...] = ()
        self._io: list[trio.CancelScope] = []
        """Scopes of the tasks that move bytes."""
        self._error: Exception | None = None
        """Fault in moving bytes, which ends the process."""
        self._is_detached = False
        self._lifetime = trio.CancelScope()
        self._outputs_ended = LateEvent()
        self._io_ended: trio.Event | None = None
        self._passed: str | None = None
        self._pause: trio.CancelScope | None = None
        """The watch of resources, which output shortens as a sign of work."""
        self._is_reading = False
        self._is_terminated = False
        self._reported = False
        self._complete = False
        self._is_supervised = False
        self._is_closed = False

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if not self._is_supervised:
                # An error of the daemon must not leak a process.
                with trio.CancelScope(shield=True):
                    await self.tree.end(self._context.grace_s)
                    self.launched.reap()
        finally:
            self.close()

    @classmethod
    async def start(cls, call: Call, context: RuntimeContext, limits: ResourceLimits) -> Child:
        """Start the program; return when it runs. Enter the child at once. Raises `StartFailed`."""
        try:
            launched = _launch(call)
        except LaunchFailed as failed:
            raise StartFailed(failed.message, failed.reason) from None
        tree = ProcessTree(launched, call.mark, call.cgroup, call.limit_group)
        failure_hint = _failure_hint(call)
        child = cls(
            launched, tree, context, limits, call.tool, failure_hint, call.launch.stdin_head
        )
        limits.follow(call.mark, call.limit_group)
        try:
            await launched.finish_start()
        except LaunchFailed as failed:
            child.close()
            raise StartFailed(failed.message, failed.reason) from None
        except BaseException:
            with trio.CancelScope(shield=True):
                await child.tree.end(0.0)
            child.close()
            raise
        return child

    @property
    def pid(self) -> int:
        return self.launched.pid

    @property
    def stdout(self) -> int:
        return _require_fd(self.launched.stdout)

    @property
    def stderr(self) -> int:
        return _require_fd(self.launched.stderr)

    @property
    def ended(self) -> bool:
        return self._is_closed or self.launched.exit is not None

    def left_behind(self) -> tuple[LeftBehind, ...]:
        if self._is_closed or not self.ended:
            return ()
        return tuple(LeftBehind(pid, command) for pid, command in self.tree.left_behind().items())

    def kill(self) -> None:
        """Send KILL to all processes; the supervisor reports the end."""
        if not self._is_closed:
            self.tree.signal(signal.SIGKILL)

    def members(self) -> tuple[int, ...]:
        return () if self._is_closed else tuple(self.tree.members())

    def emit(self, data: bytes, *, is_stderr: bool = False) -> None:
        """Report output within the limit."""
        if not data:
            return
        if self._pause is not None:
            soon = trio.current_time() + _POLL_AFTER_OUTPUT_S
            self._pause.deadline = min(self._pause.deadline, soon)
        if self._failure_hint is not None:
            self._failure_hint.feed(data)
        kept, passed = self._limits.count(data)
        if kept:
            self._context.emit(kept, is_stderr=is_stderr)
        if passed and self._passed is None:
            self.pass_limit("output")

    def emit_stderr(self, data: bytes) -> None:
        self.emit(data, is_stderr=True)

    def pass_limit(self, limit: str) -> None:
        self._passed = self._passed or limit
        self._lifetime.cancel()

    def terminate(self) -> None:
        """End the process after its final state."""
        self._is_terminated = True
        self._lifetime.cancel()

    async def run(
        self,
        outputs: Sequence[Output],
        interpreter: Interpreter,
        tasks: Sequence[Callable[[], Awaitable[None]]] = (),
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Supervise until no process is left. `tasks` run while bytes may move; `at_end` precedes
        the report."""
        self._outputs = outputs
        self._has_begun = True
        early, self._early_io = self._early_io, ()
        try:
            for task in (*early, *tasks):
                self.start_io(task)
            supervised = self._supervise(interpreter, at_end)
            listener = self.launched.listener
            if listener is not None:
                supervised = self._supervise_connects_during(supervised, listener)
            await supervised
            self._is_supervised = True
        except BaseException as error:
            self._is_supervised = is_cancellation(error)
            raise
        finally:
            await self._end_io()
        if self._error is not None:
            raise self._error

    async def _supervise_connects_during(
        self, supervised: Coroutine[Any, Any, None], listener: int
    ) -> None:
        async with trio.open_nursery() as nursery:
            connects = trio.CancelScope(shield=True)
            nursery.start_soon(self._supervise_connects, listener, connects)
            try:
                await supervised
            finally:
                connects.cancel()

    async def _supervise_connects(self, listener: int, scope: trio.CancelScope) -> None:
        with scope:
            await connect_supervisor.supervise(listener, self.launched.proxy_port)

    def close(self) -> None:
        self._is_closed = True
        self._outputs = ()
        self._limits.unfollow()
        self.launched.close()

    def start_io(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run `task` while bytes may move, from `run` on."""
        if self._is_detached:
            return
        if not self._has_begun:
            self._early_io = (*self._early_io, task)
            return
        scope = trio.CancelScope()
        self._io.append(scope)
        trio.lowlevel.spawn_system_task(self._run_io, task, scope)

    async def _run_io(self, task: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            with scope:
                await task()
        except Exception as error:
            self._fail(error)
        finally:
            self._io.remove(scope)
            if not self._io and self._io_ended is not None:
                self._io_ended.set()

    def _fail(self, error: Exception) -> None:
        """End the process for a fault in moving bytes, which `run` then raises."""
        if self._error is None:
            self._error = error
            self._lifetime.cancel()

    def _cancel_io(self) -> None:
        if not self._is_detached:
            self._is_detached = True
            # Only once: after the close the number may belong to another handle's output.
            for output in self._outputs:
                readiness.unwatch(output.fd)
        for scope in self._io:
            scope.cancel()

    async def _end_io(self) -> None:
        self._cancel_io()
        if self._io:
            self._io_ended = trio.Event()
            with trio.CancelScope(shield=True):
                await self._io_ended.wait()

    def _watch_outputs(self) -> None:
        for output in self._outputs:
            if not output.at_end and not output.is_watched:
                output.is_watched = True
                reader = pump.Reader(output.fd, output.take, output.keep_up, self._is_final)
                readiness.watch(output.fd, partial(self._read_output, output, reader))

    def read_output(self) -> None:
        """Read the outputs that are watched, as the loop does once they are readable."""
        readiness.call_now([output.fd for output in self._outputs])

    def _read_output(self, output: Output, reader: pump.Reader) -> None:
        try:
            rest = reader.turn()
            if reader.at_end:
                readiness.unwatch(output.fd)
                output.at_end = True
                output.on_end()
                if all(output.at_end for output in self._outputs):
                    self._outputs_ended.set()
            elif rest is not None:
                readiness.unwatch(output.fd)
                self.start_io(partial(self._read_after, rest, output, reader))
        except Exception as error:
            readiness.unwatch(output.fd)
            self._fail(error)

    async def _read_after(self, rest: Awaitable[None], output: Output, reader: pump.Reader) -> None:
        await rest
        if not self._is_detached:
            readiness.watch(output.fd, partial(self._read_output, output, reader))

    def _is_final(self) -> bool:
        """True if the end of output is final; a terminal may be reopened."""
        return self.launched.master is None or self.ended

    async def _supervise(self, interpreter: Interpreter, at_end: Callable[[], None]) -> None:
        began = trio.current_time()
        if self._limits.wall_left is not None:
            self._lifetime.deadline = began + self._limits.wall_left
        try:
            with self._lifetime:
                if self.launched.reap() is None:
                    self._watch_outputs()
                    await self._within_limits(self.launched.wait_exit)
        except BaseException as error:
            if not is_cancellation(error):
                raise
            with trio.CancelScope(shield=True):
                await self._stop(interpreter, at_end)
            raise
        wall_end = self._lifetime.deadline
        self._limits.spent(trio.current_time() - began)
        exit = self.launched.exit
        if exit is None:
            if not self._is_terminated and self._error is None:
                self._passed = self._passed or "wall_s"
            with trio.CancelScope(shield=True):
                await self._stop(interpreter, at_end)
            return
        self._report(exit, interpreter, at_end)
        self._lifetime = trio.CancelScope(deadline=wall_end)
        if self._passed is not None:
            self._lifetime.cancel()
        await self._await_descendants()

    def _within_limits(self, wait: Callable[[], Awaitable[object]]) -> Awaitable[object]:
        """Run `wait` while the use of resources is watched."""
        limits = self._limits
        is_watched = limits.are_polled or limits.group is not None
        return self._watch_limits_during(wait) if is_watched else wait()

    async def _watch_limits_during(self, wait: Callable[[], Awaitable[object]]) -> None:
        async with trio.open_nursery() as nursery:
            if self._limits.are_polled:
                nursery.start_soon(self._watch_use, nursery)
            if self._limits.group is not None:
                nursery.start_soon(self._watch_group, self._limits.group)
            await wait()
            nursery.cancel_scope.cancel()

    async def _watch_use(self, nursery: trio.Nursery) -> None:
        """Count the processes, and have their sums read beside: a read must not delay the count."""
        limits, pause_s = self._limits, FIRST_PAUSE_S
        while True:
            self._pause = trio.CancelScope(deadline=trio.current_time() + pause_s)
            with self._pause:
                await trio.sleep_forever()
            await take_turn()
            pids = self.members()
            limit = limits.passed_count(pids)
            if limit is None and not limits.reads_may_wait:
                limit = limits.passed_sum(pids)
            if limit is not None:
                self.pass_limit(limit)
                return
            if limits.reads_may_wait and not self._is_reading:
                self._is_reading = True
                nursery.start_soon(self._read_sums, pids)
            pause_s = limits.next_pause_s(pause_s)

    async def _read_sums(self, pids: Sequence[int]) -> None:
        try:
            limit = await trio.to_thread.run_sync(
                self._limits.passed_sum, pids, abandon_on_cancel=True, limiter=_readers
            )
        finally:
            self._is_reading = False
        if limit is not None:
            self.pass_limit(limit)
        elif self._pause is not None:
            next_look = trio.current_time() + self._limits.longest_pause_s
            self._pause.deadline = min(self._pause.deadline, next_look)

    async def _watch_group(self, group: LimitGroup) -> None:
        self.pass_limit(await group.wait_passed())

    def _report(self, exit: Exit, interpreter: Interpreter, at_end: Callable[[], None]) -> None:
        self._drain()
        at_end()
        result = interpreter.finish(exit)
        if result is None:
            return
        self._reported = True
        group = self._limits.group
        by_kernel = None if group is None else group.find_passed()
        limit = self._passed = self._passed or by_kernel or self._limits.exceeded(exit)
        termination = _ending(
            exit,
            result if limit is None else ToolResult(),
            EXIT if limit is None else LIMIT,
            limit,
        )
        if self._failure_hint is not None and (exit.code != 0 or result.failure is not None):
            hint = self._failure_hint.text(self._tool, exit.code)
            termination = replace(termination, hint=hint)
        self._context.ended(termination, complete=self._complete)

    def _drain(self) -> None:
        for output in self._outputs:
            # A terminal may only have been at its end while no process had it open.
            output.at_end = pump.drain(output.fd, output.take) or output.at_end
        self._complete = all(output.at_end for output in self._outputs)
        if self._complete:
            self._outputs_ended.set()

    async def _await_descendants(self) -> None:
        try:
            if self._reported and not self._outputs_ended.is_set():
                self._watch_outputs()
                with trio.move_on_after(_DETACH_AFTER_S):
                    await self._outputs_ended.wait()
            await self._detach_outputs()
            if not self._reported:
                # The handle continues with another run.
                await self.tree.end(self._context.grace_s)
            await self._wait_rest()
        except BaseException as error:
            if is_cancellation(error):
                with trio.CancelScope(shield=True):
                    await self.tree.end(self._context.grace_s)
                await self._detach_outputs()
            raise

    async def _wait_rest(self) -> None:
        if self.tree.check_over():
            return
        with self._lifetime:
            await self._within_limits(self.tree.wait_ended)
        if self._lifetime.cancelled_caught:
            limit = self._passed or "wall_s"
            log.warning("a limit ended the processes left behind", limit=limit, pid=self.pid)
            with trio.CancelScope(shield=True):
                await self.tree.end(self._context.grace_s)

    async def _detach_outputs(self) -> None:
        # Only after every task has released the descriptors: their numbers are reused.
        await self._end_io()
        cut = self._reported and not self._complete
        if cut:
            self._drain()
        self.launched.close_stdin(is_watched=False)
        self.launched.close_output(is_watched=False)
        if cut:
            self._complete = True
            self._context.completed()

    async def _stop(self, interpreter: Interpreter, at_end: Callable[[], None]) -> None:
        grace_s = self._context.grace_s
        dies_of_term = not await _handles_term(self.launched.pid)
        natural = self.launched.is_exiting()
        asked_to_stop = grace_s > 0 and not natural and interpreter.request_stop()
        if asked_to_stop:
            dies_of_term = False
            with trio.move_on_after(grace_s / 2):
                await self.launched.wait_exit()
        unconfirmed = await self.tree.end(grace_s)
        exit = self.launched.reap()
        if exit is None and self.launched.pid not in unconfirmed:
            exit = await self.launched.wait_exit()
        exit = exit or Exit()
        # A process with an exit code ended before the signal if TERM would have killed it or was
        # not sent.
        untouched = dies_of_term or not (asked_to_stop or self.tree.leader_was_signalled)
        natural = natural or self._is_terminated or (untouched and exit.code is not None)
        self._drain()
        at_end()
        result = interpreter.finish_killed()
        complete, self._complete = self._complete, True
        self._reported = True
        limit = self._passed
        result = result if self._is_terminated else ToolResult()
        is_limit = limit is not None
        by = EXIT if natural and not is_limit else LOST
        if is_limit and result.failure is None:
            by = LIMIT
        termination = _ending(exit, result, by, limit)
        self._context.ended(replace(termination, unconfirmed=tuple(unconfirmed)), complete=complete)
        if not complete:
            self._context.completed()
        await self._detach_outputs()


def _ending(exit: Exit, result: ToolResult, by: EndedBy, limit: str | None) -> Termination:
    termination = (
        Termination(result=result.result) if result.failure is None else result.failure.termination
    )
    return replace(termination, by=by, exit=exit_state(exit), limit=limit)


def _require_fd(fd: int | None) -> int:
    if fd is None:
        raise AssertionError("the launch returned no descriptor for a requested stream")
    return fd


async def _handles_term(pid: int) -> bool:
    """True if the process handles, ignores or blocks TERM.

    Checks one that only blocks again: a shell blocks all signals for a moment after each command.
    """
    for _ in range(_LOOKS_AT_MASK):
        masks = _masks_with_term(pid)
        if masks != {b"SigBlk"}:
            return bool(masks)
        await trio.sleep(_LOOK_S)
    return True


def _masks_with_term(pid: int) -> set[bytes]:
    try:
        status = read_status(pid)
    except OSError:
        return set()
    masks = (b"SigBlk", b"SigIgn", b"SigCgt")
    return {
        mask for mask in masks if status is not None and status.has_signal(mask, signal.SIGTERM)
    }
