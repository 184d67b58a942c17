"""The review of an execution's result: it is withheld until a reviewer has decided.

Rules: while the tool runs its output is taken and not shown. Its end is told once, with the decision; until then
the handle goes on as it was, although nothing of it may run any more. An end that a client has decided, or a fault
of ours, is told at once, drops the output, and is not reviewed. So does a review that is cancelled. Nothing is run
again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, Review
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.outcomes import internal_failure
from haftd.core.spool import Spool
from haftd.core.withheld import Ending, ReviewDecision, Shown, WithheldResult

__all__ = ["PendingReview", "Reviewer"]

_MAX_SHOWN = 16_384
"""Bytes of a result that the reviewer is shown."""

_REVIEWED = ("exit", "limit")
"""The ends that are reviewed: those that no client asked for."""

_BECAME: dict[str, Review] = {
    "allow": "allowed",
    "edit": "edited",
    "deny": "denied",
    "skip": "skipped",
}

log = structlog.get_logger("haftd.executions.review")

Reviewer = Callable[[Handle, Shown], Awaitable[ReviewDecision]]
"""Waits for the decision about a result. Raises the `RpcError` with which it is refused."""


class PendingReview:
    """The end of an execution, kept from its readers until the decision."""

    __slots__ = ("_complete", "_ender", "_handle", "_reviewer", "_scope", "_withheld", "done")

    def __init__(self, handle: Handle, spool: Spool, reviewer: Reviewer) -> None:
        self._handle = handle
        self._withheld = WithheldResult(spool)
        self._reviewer = reviewer
        self._scope = trio.CancelScope()
        self._ender: Callable[[], EndedBy | None] = lambda: None
        self._complete = trio.Event()
        self.done = trio.Event()
        """Nothing is withheld any more."""
        handle.review = "held"

    @property
    def has_ended(self) -> bool:
        """Whether the execution has ended, and its end is not told yet."""
        return self._withheld.ending is not None

    def emit(self, data: bytes) -> None:
        """Take output."""
        self._withheld.emit(data)

    def hold(self, ending: Ending, now: float) -> bool:
        """Keep the end until the decision; false where it is to be told at once."""
        if ending.by.by not in _REVIEWED:
            self._handle.review = "dropped"
            self._withheld.drop()
            return False
        self._withheld.ending = ending
        if self.done.is_set():
            # It was given up while it ended: the review is over.
            self._give_up()
            return True
        self._handle.review = "waits"
        if self._handle.state is State.WAITING:
            self._handle.withdraw(now)
        else:
            self._handle.touch(now)
        return True

    def complete(self) -> None:
        """No more output will come."""
        if self.has_ended:
            self._complete.set()

    def cancel(self) -> None:
        """End the review without a decision."""
        self._scope.cancel()

    async def run(self, ender: Callable[[], EndedBy | None]) -> None:
        """Wait for the end and for the decision, then tell the end. `ender` names the client that ends it meanwhile."""
        self._ender = ender
        try:
            with self._scope:
                await self._complete.wait()
                if (decision := await self._seek()) is not None:
                    self._tell(decision)
        finally:
            if self.has_ended and not self._handle.stopped:
                self._give_up()
            self._withheld.drop()
            self.done.set()

    async def _seek(self) -> ReviewDecision | None:
        """Return the decision; None where there will be none."""
        handle = self._handle
        try:
            return await self._reviewer(handle, self._withheld.show(handle.rendering, _MAX_SHOWN))
        except RpcError as refusal:
            if refusal.kind == "shutting_down":
                return None  # It has run: no caller is asked to try again.
            return ReviewDecision("deny", said=refusal.message, refusal=refusal)
        except Exception:
            log.exception("a result could not be reviewed", handle=handle.id, tool=handle.tool)
            return ReviewDecision("deny", said=internal_failure())

    def _give_up(self) -> None:
        """Tell the end without a decision."""
        self._handle.review = "dropped"
        self._end(self._withheld.discard(self._ender() or EndedBy("shutdown")), None)

    def _tell(self, decision: ReviewDecision) -> None:
        self._handle.review = _BECAME[decision.decision]
        self._handle.refusal = decision.refusal
        self._end(*self._withheld.release(decision))

    def _end(self, ending: Ending, spool: Spool | None) -> None:
        handle = self._handle
        if spool is not None:
            handle.spool.close()
            handle.spool = spool
        handle.end_as(ending, trio.current_time(), complete=True)
