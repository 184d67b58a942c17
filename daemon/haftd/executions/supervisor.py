"""One task a handle: it runs the tool, reports into the handle, and ends when nothing is left.

Rules: `start` decides at once and schedules; what became of it is a fact in the handle and in its
`Execution`. A handle's fault stays in that handle. Aborting is cancelling the task; the runtime ends
what it started and says so through its port. Connections are not known here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog
import trio

from haft_protocol.errors import (
    RpcError,
    shutting_down,
    spawn_failed,
)
from haft_protocol.states import EndedBy, Exit, LeftBehind
from haftd.core.ending import EXIT, LOST, Ending, internal_failure
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
from haftd.host.launch.spawn import leaders
from haftd.host.process.identity import Stat
from haftd.host.tree.survivors import Survivors
from haftd.inquiries.tool_question import InquiryQueue
from haftd.runtimes.base import (
    Call,
    Runtime,
    StartFailed,
    ToolFailed,
)

from .execution import Entry, Execution, Skipped
from .piping import Pipe
from .review import PendingReview

_KILL_S = 5.0
"""How long an abort waits for what could not be ended before."""
_IN_A_ROW = 4  # starts or ends, before all others get their turn: one or two milliseconds

log = structlog.get_logger("haftd.executions.supervisor")


@dataclass(frozen=True, slots=True)
class _Faulted:
    """The runtime, or what it stands on, has failed: the fault is the daemon's."""

    problem: str


@dataclass(frozen=True, slots=True)
class _Cancelled:
    """The task was cancelled before the tool was run to its end."""


_Conclusion = Ending | Skipped | RpcError | _Faulted | _Cancelled
"""How the task of an execution has ended; an `RpcError` is the reason for which the tool was not started."""


class Supervisor:
    """Holds the task of every handle. `clear_up` is called when nothing of a use is left, with
    whether all of it was confirmed gone."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        grace_s: float,
        withdraw: Callable[[Handle], None],
        clear_up: Callable[[Call, bool], None],
        wake_expiry: Callable[[], None] = lambda: None,
    ) -> None:
        self._nursery = nursery
        self._grace_s = grace_s
        self._withdraw = withdraw
        self._clear_up = clear_up
        self.wake_expiry = wake_expiry
        """Called when a handle may be due to be forgotten."""
        self._uses: dict[Handle, Execution] = {}
        self._marks: dict[str, Execution] = {}
        self._remains: dict[Handle, Survivors] = {}
        """What could not be ended, of handles whose use is over."""
        self._turns = trio.Semaphore(_IN_A_ROW)

    def start(
        self,
        handle: Handle,
        runtime: Runtime,
        call: Call,
        inquiries: InquiryQueue | None = None,
        entry: Entry | None = None,
        review: PendingReview | None = None,
    ) -> Execution:
        """Schedule the tool's task; nothing of it has run when this returns. `inquiries` are
        its questions; `entry` is waited for before it runs; `review` holds its end back
        until somebody has seen it."""
        use = Execution(handle, self._grace_s, inquiries, review)
        use.mark = call.mark
        self._uses[handle] = use
        self._marks[call.mark] = use
        handle.set_left_behind(use.left_behind)
        name = f"{call.tool}:{handle.id}"
        self._nursery.start_soon(self._supervise, use, runtime, call, entry, name=name)
        if review is not None:
            self._nursery.start_soon(review.run)
        return use

    def pipe(self, source: Handle, reader: Execution, offset: int) -> None:
        """Copy the output of a handle, from `offset` on, into the input of an execution that has not begun."""
        pipe = Pipe(source, self.use_of(source), reader, offset, self.end)
        self._nursery.start_soon(pipe.run, name=f"{source.id} | {reader.handle.id}")

    def use_of(self, handle: Handle) -> Execution | None:
        """The use that is still held: running, or with processes left behind."""
        return self._uses.get(handle)

    def marked(self, mark: str) -> Execution | None:
        """The use whose processes carry this mark, for as long as there are any."""
        return self._marks.get(mark)

    def holding(self, lineage: Sequence[Stat]) -> tuple[Execution, bool] | None:
        """Return the use that a process descends from, and whether that use's first process lives.

        Only what a process cannot change counts: which processes it descends from, and in whose session
        these are. What has made a session of its own and lost its parent is of no use: the marks that it
        carries, it could have written itself.
        """
        numbers = {number for one in lineage for number in (one.pid, one.session)}
        for number in numbers:
            if number in leaders and (use := self._marks.get(leaders[number].mark)) is not None:
                return use, True
        for use in self._uses.values():
            # A number stays taken for as long as a session is called by it.
            if use.grip is not None and use.grip.pid in {one.session for one in lineage}:
                return use, False
        return None

    def uses(self, session: str | None = None, id: str | None = None) -> tuple[Execution, ...]:
        """The uses that are still held, or those of a session, or of an id: a handle that a new one
        of its name has replaced may have left processes behind, and they are still its."""
        return tuple(
            use
            for handle, use in self._uses.items()
            if session in (None, handle.session) and id in (None, handle.id)
        )

    def end(self, use: Execution, by: EndedBy, grace_s: float | None = None) -> None:
        """Decide that a use ends, whoever goes away meanwhile. The first to do so ended it; who asks
        again with a shorter grace need not wait for the first one's."""
        if not use.request_stop(by) and grace_s is not None:
            self._nursery.start_soon(self._hasten, use, grace_s)
        if grace_s is not None:
            use.grace_s = grace_s
        self._nursery.start_soon(self._cancel_in_turn, use)

    async def _hasten(self, use: Execution, grace_s: float) -> None:
        with trio.move_on_after(grace_s):
            await use.done.wait()
        if not use.done.is_set():
            use.kill()

    def abandon(self, use: Execution, by: EndedBy) -> None:
        """Cancel an execution that no call wants any more, if it still awaits approval."""
        if use.handle.is_awaiting_approval:
            use.handle.abandon(by)
            self.end(use, by)

    async def _cancel_in_turn(self, use: Execution) -> None:
        await self._take_turn()
        use.cancel()

    async def abort(self, use: Execution, by: EndedBy, grace_s: float | None = None) -> None:
        """End a use; returns when nothing of it is left."""
        self.end(use, by, grace_s)
        await use.done.wait()

    async def abort_all(self, by: EndedBy, uses: Iterable[Execution] | None = None) -> None:
        """End many uses at once; returns when nothing of them is left."""
        async with trio.open_nursery() as nursery:
            for use in self.uses() if uses is None else uses:
                nursery.start_soon(self.abort, use, by)

    async def _take_turn(self) -> None:
        """Wait until it is this one's turn to block the loop, as every start and every look for what
        is to be ended does for a moment; hundreds of them at once must not block it as a whole."""
        async with self._turns:
            pass

    async def _supervise(
        self, use: Execution, runtime: Runtime, call: Call, entry: Entry | None
    ) -> None:
        handle = use.handle
        self._conclude(use, await self._run(use, runtime, call, entry))
        use.begin()
        if use.review is not None:
            use.review.complete()
            await use.review.done.wait()
        handle.clear_left_behind()
        del self._uses[handle]
        self._marks.pop(call.mark, None)
        if handle.unconfirmed:
            self._keep_remains(handle, call)
        try:
            if handle.terminal:
                handle.keep_screen(use.screen(), use.paint() or b"")
            self._clear_up(call, not handle.unconfirmed)
        except Exception:
            log.exception("clearing up after a handle failed", handle=handle.id, tool=call.tool)
        finally:
            use.finish()

    async def _run(
        self, use: Execution, runtime: Runtime, call: Call, entry: Entry | None
    ) -> _Conclusion:
        """Run the tool once that may run; return how it went. The scope of the execution cancels both."""
        handle = use.handle
        try:
            with use.scope:
                if entry is not None:
                    try:
                        runtime, call = await entry()
                    except (Skipped, RpcError) as refused:
                        return refused
                    handle.approve(terminal=call.terminal)
                await self._take_turn()
                try:
                    result = await runtime.run(call, use)
                except StartFailed as failed:
                    return spawn_failed(failed.message.rstrip("."), reason=failed.reason)
                except ToolFailed as failed:
                    return failed.ending
                return Ending(result=result, exit=Exit(code=0) if result is None else None)
        except Exception:
            incident = secrets.token_hex(4)
            log.exception("a runtime failed", handle=handle.id, tool=call.tool, incident=incident)
            return _Faulted(internal_failure(incident))
        return _Cancelled()

    def _conclude(self, use: Execution, conclusion: _Conclusion) -> None:
        """Record the end of an execution, by the state in which its handle is, unless that was reported before."""
        match use.handle.phase, conclusion:
            case (UnderReview() | Draining() | Stopped() | Rejected(), _):
                pass
            case (_, Skipped() as skipped):
                use.skip(skipped)
            case (AwaitingApproval() | Abandoned() | Starting(), RpcError() as error):
                self._reject(use, error)
            case (AwaitingApproval() | Abandoned() | Starting(), _Faulted(problem)):
                self._reject(use, spawn_failed(problem.rstrip("."), reason="internal"))
            case (AwaitingApproval() | Abandoned() as phase, _Cancelled()):
                by = use.handle.stop_requested_by
                if by is not None and by.by == "shutdown":
                    self._reject(use, shutting_down())
                elif by is None or isinstance(phase, Abandoned):
                    why = "it was ended while it waited for approval"
                    self._reject(use, spawn_failed(why, reason="aborted"))
                else:
                    # A client has found the handle and ended it: it has an end, as any other.
                    use.ended(Ending(by=LOST))
            case (_, _Cancelled()):
                use.ended(Ending(by=EXIT if use.handle.stop_requested_by is None else LOST))
            case (_, _Faulted(problem) | RpcError(message=problem)):
                use.ended(ToolFailed(problem).ending)
            case (_, Ending() as ending):
                use.ended(ending)

    def _reject(self, use: Execution, error: RpcError) -> None:
        """Undo the admission of a tool that was not started."""
        self._withdraw(use.handle)
        use.reject(error)

    def _keep_remains(self, handle: Handle, call: Call) -> None:
        """Hold what could not be ended, so that it is listed and can be aborted again."""
        remains = Survivors(handle.unconfirmed, call.mark)
        self._remains[handle] = remains
        handle.set_left_behind(
            lambda: tuple(LeftBehind(one.pid, one.command) for one in remains.living())
        )
        self._nursery.start_soon(self._see_remains_out, handle, call, remains)

    async def _see_remains_out(self, handle: Handle, call: Call, remains: Survivors) -> None:
        try:
            await remains.gone()
        finally:
            remains.close()
            del self._remains[handle]
        self._clear_up(call, True)
        handle.end_survivors()

    def remains(self, session: str | None = None, id: str | None = None) -> list[Handle]:
        """The handles, or those of a session, or of an id, of which something could not be ended."""
        return [
            handle
            for handle in self._remains
            if session in (None, handle.session) and id in (None, handle.id)
        ]

    async def kill_remains(self, handle: Handle) -> None:
        """Kill once more what could not be ended; returns when it is gone, or after a bound."""
        remains = self._remains.get(handle)
        if remains is None:
            return
        remains.kill()
        gone = trio.Event()

        def look() -> None:
            if handle not in self._remains:
                gone.set()

        handle.listen(look)
        try:
            with trio.move_on_after(_KILL_S):
                await gone.wait()
        finally:
            handle.unlisten(look)
