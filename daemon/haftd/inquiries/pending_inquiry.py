"""One inquiry: queued → open → answered, unanswered or withdrawn."""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from haftd.caller import Caller

from .kind import Answered, End, InquiryKind, Unanswered

log = structlog.get_logger("haftd.inquiries")


def _forget(pending: PendingInquiry) -> None:
    pass


class PendingInquiry:
    """Inquiry and its end. The first end counts; `on_end` follows the kind's consequences."""

    __slots__ = (
        "__weakref__",
        "_on_end",
        "_on_open",
        "_waiter",
        "asked",
        "end",
        "is_unclaimed",
        "is_withdrawn",
        "kind",
        "outcome",
        "routed",
        "settled",
        "since",
        "turn",
    )

    def __init__(
        self,
        kind: InquiryKind,
        on_end: Callable[[PendingInquiry], None],
        on_open: Callable[[PendingInquiry], None] = _forget,
    ) -> None:
        self.kind = kind
        self.end: End | None = None
        self.asked: Caller | None = None
        """Connected client that has the question and has not replied yet."""
        self.outcome: object = None
        """Result of `InquiryKind.follow`."""
        self.since = 0.0
        """Time of opening, by trio's clock."""
        self.is_unclaimed = False
        """All candidates have declined: only a client can answer now, unasked."""
        self.is_withdrawn = False
        """The waiting task is cancelled: no answer is accepted."""
        self.routed = trio.Event()
        """Set when a candidate is asked, when all have declined, and at the end."""
        self.turn = trio.Event()
        """Set when the inquiry leaves the queue."""
        self.settled = trio.Event()
        self._waiter: trio.lowlevel.Task | None = None
        self._on_end = on_end
        self._on_open = on_open

    @property
    def is_open(self) -> bool:
        """True if an answer is accepted now."""
        is_asked = self.turn.is_set() and self.kind.is_ready
        return is_asked and self.end is None and not self.is_withdrawn

    async def wait(self) -> None:
        """Wait for the end, in one task. A cancellation withdraws the inquiry at once.

        The task itself runs in a later pass of the loop, and an answer accepted before that would
        have no effect.
        """

        def withdraw(_: object) -> trio.lowlevel.Abort:
            self.is_withdrawn, self._waiter = True, None
            return trio.lowlevel.Abort.SUCCEEDED

        if self.end is None:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(withdraw)

    def open(self) -> None:
        """Leave the queue: record the time, change the handle, and accept answers if the kind is
        ready."""
        self.since = trio.current_time()
        self.kind.on_open()
        self.turn.set()
        self._log("question asked")
        self._on_open(self)

    def claim(self, claimed: bool) -> None:
        """Record that a candidate is asked (True) or that all have declined."""
        self.is_unclaimed = not claimed
        self.routed.set()
        self.kind.on_claim()

    def settle(self, end: End) -> bool:
        """End the inquiry, apply the consequences if it was open, wake the waiting task, and call
        `on_end`; return False, without effects, if it has ended before."""
        if self.end is not None:
            return False
        self.end = end
        self.routed.set()
        self.settled.set()
        if self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None
        if self.turn.is_set():
            how = {Answered: "answered", Unanswered: "failed"}.get(type(end), "withdrawn")
            duration_s = round(trio.current_time() - self.since, 3)
            self._log("question settled", how=how, duration_s=duration_s)
            self.outcome = self.kind.follow(end)
        on_end, self._on_end = self._on_end, _forget  # breaks a reference cycle
        on_end(self)
        return True

    def _log(self, event: str, **more: object) -> None:
        log.info(event, inquiry=self.kind.id, tool=self.kind.tool, **self.kind.labels, **more)
