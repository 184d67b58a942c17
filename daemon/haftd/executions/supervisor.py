"""A task per handle: runs the tool, reports into the handle, ends after the last process.

Abort cancels the task.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog
import trio

from haft_protocol.errors import (
    RpcError,
    shutting_down,
    spawn_failed,
)
from haft_protocol.states import EndedBy, Exit, LeftBehind
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import (
    Abandoned,
    AwaitingApproval,
    Draining,
    Rejected,
    Starting,
    Stopped,
    UnderReview,
)
from haftd.core.termination import EXIT, LOST, Termination, internal_failure
from haftd.host.launch.launched_process import leaders
from haftd.host.process.identity import Stat
from haftd.host.tree.survivors import Survivors
from haftd.inquiries.tool_question import InquiryQueue
from haftd.runtimes.base import (
    Call,
    Runtime,
    StartFailed,
    ToolFailed,
)

from .execution import Execution, Skipped, StartGate
from .pipe import Pipe
from .review import PendingReview

_KILL_S = 5.0
"""Seconds that an abort waits for remaining processes."""
_IN_A_ROW = 4  # starts or ends between checkpoints: one or two milliseconds

log = structlog.get_logger("haftd.executions.supervisor")


class _Faulted(msgspec.Struct, frozen=True):
    """Internal error of runtime or daemon."""

    problem: str


class _Cancelled(msgspec.Struct, frozen=True):
    """Cancelled before the tool's end."""


_Conclusion = Termination | Skipped | RpcError | _Faulted | _Cancelled
"""End of an execution's task; an `RpcError` is the reason of a failed start."""


class Supervisor:
    """Owner of every handle's task.

    `clear_up` follows an execution's last process; False: some may be left.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        grace_s: float,
        withdraw: Callable[[Handle, str], None],
        clear_up: Callable[[Call, bool], None],
        wake_expiry: Callable[[], None] = lambda: None,
    ) -> None:
        self._nursery = nursery
        self._grace_s = grace_s
        self._withdraw = withdraw
        self._clear_up = clear_up
        self.wake_expiry = wake_expiry
        """Called once a handle may have expired, after the change that lets it."""
        self._executions: dict[Handle, Execution] = {}
        self._by_tag: dict[str, Execution] = {}
        self._survivors: dict[Handle, Survivors] = {}
        """Processes that survived KILL, of handles without an execution."""
        self._turns = trio.Semaphore(_IN_A_ROW)
        self._scheduled: deque[Callable[[], Awaitable[None]]] = deque()
        """Starts and ends without a turn yet, first come, first served."""

    def start(
        self,
        handle: Handle,
        runtime: Runtime,
        call: Call,
        inquiries: InquiryQueue | None = None,
        gate: StartGate | None = None,
        review: PendingReview | None = None,
    ) -> Execution:
        """Schedule the tool's task; `gate` is awaited first, `review` withholds the end."""
        execution = Execution(handle, self._grace_s, inquiries, review)
        execution.mark = call.mark
        self._executions[handle] = execution
        self._by_tag[call.mark] = execution
        handle.set_left_behind(execution.left_behind)
        if gate is None:
            self._schedule(partial(self._supervise, execution, runtime, call))
        else:
            self._schedule(partial(self._await_gate, execution, call, gate))
        if review is not None:
            self._nursery.start_soon(review.run)
        return execution

    def pipe(self, source: Handle, reader: Execution, offset: int) -> None:
        """Copy a handle's output from `offset` into an execution that has not begun."""
        pipe = Pipe(source, self.execution_of(source), reader, offset, self.end)
        self._nursery.start_soon(pipe.run, name=f"{source.id} | {reader.handle.id}")

    def execution_of(self, handle: Handle) -> Execution | None:
        """Return the handle's execution; None without processes."""
        return self._executions.get(handle)

    def is_asked(self, caller: Caller, handle: Handle) -> bool:
        """True while the connection has the handle's question as a request, and has not replied."""
        execution = self._executions.get(handle)
        pending = None if execution is None else execution.inquiries.current
        return pending is not None and pending.asked is caller

    def with_tag(self, mark: str) -> Execution | None:
        return self._by_tag.get(mark)

    def ancestor_of(self, lineage: Sequence[Stat]) -> tuple[Execution, bool] | None:
        """Return the execution that a process descends from, and True if its leader lives.

        By ancestry and sessions only, as tags can be forged: an orphan in its own session belongs
        to none.
        """
        numbers = {number for process in lineage for number in (process.pid, process.session)}
        for number in numbers:
            if (
                number in leaders
                and (execution := self._by_tag.get(leaders[number].mark)) is not None
            ):
                return execution, True
        for execution in self._executions.values():
            # A session's id keeps the pid taken.
            if execution.control is not None and execution.control.pid in {
                process.session for process in lineage
            }:
                return execution, False
        return None

    def executions(
        self, session: str | None = None, id: str | None = None
    ) -> tuple[Execution, ...]:
        """Return the executions with processes, of a session or id, also of replaced handles."""
        return tuple(
            execution
            for handle, execution in self._executions.items()
            if session in (None, handle.session) and id in (None, handle.id)
        )

    def end(self, execution: Execution, by: EndedBy, grace_s: float | None = None) -> None:
        """Request the end, regardless of disconnects; a later request may only shorten the grace."""
        if not execution.request_stop(by) and grace_s is not None:
            self._nursery.start_soon(self._shorten_grace, execution, grace_s)
        if grace_s is not None:
            execution.grace_s = grace_s
        if execution.handle.is_awaiting_decision:
            # Immediately: a decision in the same pass of the loop would be accepted without effect.
            execution.cancel()
            return
        self._schedule(partial(_cancel, execution))

    async def _shorten_grace(self, execution: Execution, grace_s: float) -> None:
        with trio.move_on_after(grace_s):
            await execution.done.wait()
        if not execution.done.is_set():
            execution.kill()

    def abandon(self, execution: Execution, by: EndedBy) -> None:
        if execution.handle.is_awaiting_approval:
            execution.handle.abandon(by)
            self.end(execution, by)

    async def abort(self, execution: Execution, by: EndedBy, grace_s: float | None = None) -> None:
        self.end(execution, by, grace_s)
        await execution.done.wait()

    async def abort_all(self, by: EndedBy, executions: Iterable[Execution] | None = None) -> None:
        async with trio.open_nursery() as nursery:
            for execution in self.executions() if executions is None else executions:
                nursery.start_soon(self.abort, execution, by)

    @property
    def has_scheduled(self) -> bool:
        """True while starts or ends wait for their turn."""
        return bool(self._scheduled)

    def _schedule(self, step: Callable[[], Awaitable[None]]) -> None:
        self._scheduled.append(step)
        self._nursery.start_soon(self._run_next)

    async def _run_next(self) -> None:
        """Take a turn, then run the first of the scheduled starts and ends; a single one goes on in
        this pass of the loop.

        A task is not bound to a start: trio runs the tasks of a pass in either order.
        """
        if len(self._scheduled) > 1:
            async with self._turns:
                pass
        await self._scheduled.popleft()()

    async def _await_gate(self, execution: Execution, call: Call, gate: StartGate) -> None:
        conclusion: _Conclusion = _Cancelled()
        try:
            with execution.scope:
                runtime, call = await gate()
                execution.renew_scope()
                self._schedule(partial(self._supervise, execution, runtime, call))
                return
        except (Skipped, RpcError) as refused:
            conclusion = refused
        except Exception:
            conclusion = self._faulted(execution)
        await self._finish(execution, call.without_launch(), conclusion)

    async def _supervise(self, execution: Execution, runtime: Runtime, call: Call) -> None:
        handle, kept_call = execution.handle, call.without_launch()
        trio.lowlevel.current_task().name = f"{call.tool}:{handle.id}"
        conclusion: _Conclusion = _Cancelled()
        try:
            with execution.scope:
                await trio.lowlevel.checkpoint_if_cancelled()
                if call.launch.terminal:
                    handle.timeline.initial_size = call.launch.rows, call.launch.cols
                try:
                    running = runtime.run(call, execution)
                    del call  # the runtime lets go of the call, too
                    result = await running
                except StartFailed as failed:
                    conclusion = spawn_failed(failed.message.rstrip("."), reason=failed.reason)
                except ToolFailed as failed:
                    conclusion = failed.termination
                else:
                    exit = Exit(code=0) if result is None else None
                    conclusion = Termination(result=result, exit=exit)
        except Exception:
            conclusion = self._faulted(execution)
        await self._finish(execution, kept_call, conclusion)

    async def _finish(self, execution: Execution, call: Call, conclusion: _Conclusion) -> None:
        handle = execution.handle
        self._conclude(execution, conclusion)
        execution.begin()
        if execution.review is not None:
            execution.review.complete()
            await execution.review.done.wait()
        handle.clear_left_behind()
        del self._executions[handle]
        self._by_tag.pop(call.mark, None)
        if handle.unconfirmed:
            self._keep_survivors(handle, call)
        try:
            if handle.terminal:
                handle.keep_screen(execution.screen(), execution.paint() or b"")
            self._clear_up(call, not handle.unconfirmed)
        except Exception:
            log.exception("clearing up after a handle failed", handle=handle.id, tool=call.tool)
        finally:
            execution.finish()

    def _faulted(self, execution: Execution) -> _Faulted:
        """Log the exception that is handled now."""
        handle, incident = execution.handle, secrets.token_hex(4)
        log.exception("a runtime failed", handle=handle.id, tool=handle.tool, incident=incident)
        return _Faulted(internal_failure(incident))

    def _conclude(self, execution: Execution, conclusion: _Conclusion) -> None:
        match execution.handle.phase, conclusion:
            case (UnderReview() | Draining() | Stopped() | Rejected(), _):
                pass
            case (_, Skipped() as skipped):
                execution.skip(skipped)
            case (AwaitingApproval() | Abandoned() | Starting(), RpcError() as error):
                self._reject(execution, error)
            case (AwaitingApproval() | Abandoned() | Starting(), _Faulted(problem)):
                self._reject(execution, spawn_failed(problem.rstrip("."), reason="internal"))
            case (AwaitingApproval() | Abandoned() as phase, _Cancelled()):
                by = execution.handle.stop_requested_by
                if by is not None and by.by == "shutdown":
                    self._reject(execution, shutting_down())
                elif by is None or isinstance(phase, Abandoned):
                    whose = "its client withdrew it" if by else "it was ended"
                    why = f"{whose} while it waited for approval"
                    self._reject(execution, spawn_failed(why, reason="aborted"))
                else:
                    # A client has ended the handle: an ordinary end.
                    execution.ended(Termination(by=LOST))
            case (_, _Cancelled()):
                execution.ended(
                    Termination(by=EXIT if execution.handle.stop_requested_by is None else LOST)
                )
            case (_, _Faulted(problem) | RpcError(message=problem)):
                execution.ended(ToolFailed(problem).termination)
            case (_, Termination() as termination):
                execution.ended(termination)

    def _reject(self, execution: Execution, error: RpcError) -> None:
        self._withdraw(execution.handle, error.message)
        execution.reject(error)

    def _keep_survivors(self, handle: Handle, call: Call) -> None:
        survivors = Survivors(handle.unconfirmed, call.mark)
        self._survivors[handle] = survivors
        handle.set_left_behind(
            lambda: tuple(
                LeftBehind(pid, command) for pid, command in survivors.find_living().items()
            )
        )
        self._nursery.start_soon(self._watch_survivors, handle, call, survivors)

    async def _watch_survivors(self, handle: Handle, call: Call, survivors: Survivors) -> None:
        try:
            await survivors.wait_ended()
        finally:
            survivors.close()
            del self._survivors[handle]
        handle.end_survivors()
        self._clear_up(call, True)

    def survivors(self, session: str | None = None, id: str | None = None) -> list[Handle]:
        """Return the handles with survivors, of a session or id."""
        return [
            handle
            for handle in self._survivors
            if session in (None, handle.session) and id in (None, handle.id)
        ]

    async def kill_survivors(self, handle: Handle) -> None:
        """Send KILL again; return once the processes are gone, or after a timeout."""
        survivors = self._survivors.get(handle)
        if survivors is None:
            return
        survivors.kill()
        gone = trio.Event()

        def on_change() -> None:
            if handle not in self._survivors:
                gone.set()

        handle.listen(on_change)
        try:
            with trio.move_on_after(_KILL_S):
                await gone.wait()
        finally:
            handle.unlisten(on_change)


async def _cancel(execution: Execution) -> None:
    execution.cancel()
