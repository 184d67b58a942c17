"""Review of a result: output is withheld until a reviewer decides.

An end by a client, an internal error or a cancelled review is reported at once, without output.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, Review
from haftd.core.handles import Handle
from haftd.core.lifecycle import UnderReview
from haftd.core.spool import Spool
from haftd.core.termination import Termination, internal_failure
from haftd.core.withheld import ResultExcerpt, ReviewDecision, WithheldResult

_MAX_SHOWN = 16_384
"""Bytes shown to the reviewer."""

_REVIEWED = ("exit", "limit")
"""Reviewed ends: those that no client requested."""

_REVIEW_STATES: dict[str, Review] = {
    "allow": "allowed",
    "edit": "edited",
    "deny": "denied",
    "skip": "skipped",
}

log = structlog.get_logger("haftd.executions.review")

Reviewer = Callable[[Handle, ResultExcerpt], Awaitable[ReviewDecision]]
"""Waits for the decision on a result; raises `RpcError` for a refusal."""


class PendingReview:
    __slots__ = ("_complete", "_handle", "_reviewer", "_scope", "_withheld", "done")

    def __init__(self, handle: Handle, spool: Spool, reviewer: Reviewer) -> None:
        self._handle = handle
        self._withheld = WithheldResult(spool)
        self._reviewer = reviewer
        self._scope = trio.CancelScope()
        self._complete = trio.Event()
        self.done = trio.Event()
        """Set when nothing is withheld."""

    def emit(self, data: bytes) -> None:
        self._withheld.emit(data)

    def end(self, termination: Termination, now: float, *, complete: bool) -> None:
        """Withhold the end until the decision; without a review, report it without output."""
        by = self._handle.stop_requested_by
        if by is None and self.done.is_set():
            by = EndedBy("shutdown")
        if termination.by.by not in _REVIEWED:
            self._withheld.drop()
            self._handle.end(termination, now, complete=complete, review="dropped")
        elif by is not None:
            # A client ended execution and review.
            self._handle.end(self._withheld.discard(termination, by), now, review="dropped")
        else:
            self._handle.withhold(termination, now)
            if complete:
                self.complete()

    def complete(self) -> None:
        """Ask the reviewer once the execution has ended."""
        if isinstance(self._handle.phase, UnderReview):
            self._complete.set()
        elif self._handle.stopped:
            self.cancel()

    def cancel(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                await self._complete.wait()
                await self._decide()
        finally:
            if isinstance(review := self._handle.phase, UnderReview):
                by = self._handle.stop_requested_by or EndedBy("shutdown")
                termination = self._withheld.discard(review.termination, by)
                self._handle.release(termination, trio.current_time(), review="dropped")
            self._withheld.drop()
            self.done.set()

    async def _decide(self) -> None:
        handle, review = self._handle, self._handle.phase
        if not isinstance(review, UnderReview):
            raise AssertionError(f"a review of a handle in the phase {type(review).__name__}")
        decision = await self._await_decision(review.termination)
        if decision is not None:
            termination, spool = self._withheld.release(review.termination, decision)
            handle.release(
                termination,
                trio.current_time(),
                review=_REVIEW_STATES[decision.decision],
                spool=spool,
                refusal=decision.refusal,
            )

    async def _await_decision(self, termination: Termination) -> ReviewDecision | None:
        handle = self._handle
        try:
            shown = self._withheld.show(termination, handle.rendering, _MAX_SHOWN)
            return await self._reviewer(handle, shown)
        except RpcError as refusal:
            if refusal.kind == "shutting_down":
                return None  # it has run: callers must not retry
            return ReviewDecision("deny", explanation=refusal.message, refusal=refusal)
        except Exception:
            log.exception("a result could not be reviewed", handle=handle.id, tool=handle.tool)
            return ReviewDecision("deny", explanation=internal_failure())
