"""The questions of one handle: asked one at a time, in order of arrival, whoever asks them.

Rules: a question is asked while the handle runs; the others wait behind it, and the state of the
handle is that of the first. Each ends once: it is answered, or given up as nobody will answer it, or
withdrawn with the task that asks, or void when the handle has ended. Whoever answers first counts.
While it is asked a router looks for somebody who answers; what needs no asking it answers at once.
Nobody answers within its bound: it is given up.
An answer is held only until it is handed to whoever asked.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import structlog
import trio
from msgspec import UnsetType

from haft_protocol.approvals import Remember
from haft_protocol.errors import shown
from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import Question, Secret
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.outcomes import fault

__all__ = ["Asked", "Asking", "NoAnswer", "Router", "Void"]

log = structlog.get_logger("haftd.inquiry.asking")


class Void(Exception):
    """The handle has ended; nobody will answer any more."""


class NoAnswer(Exception):
    """The question will not be answered; the argument says why."""


class Asked:
    """One question on its way to its end."""

    __slots__ = (
        "_asking",
        "answer",
        "is_unclaimed",
        "private",
        "question",
        "refusal",
        "settled",
        "since",
        "turn",
        "void",
    )

    def __init__(self, asking: Asking, question: Question, private: bool) -> None:
        self.question = question
        self.private = private or isinstance(question.answer_type, Secret)
        self.since = 0.0
        """When it was asked, by trio's clock."""
        self.turn = trio.Event()
        self.settled = trio.Event()
        self.is_unclaimed = asking.router is None
        """Whether all who can be asked have declined: it waits for whoever comes by."""
        self.void = False
        self.refusal: str | None = None
        self.answer: Any = None
        self._asking = asking

    def give(self, value: Any) -> bool:
        """Answer it with what was checked before; false when it has ended already."""
        if self.settled.is_set():
            return False
        self._asking.answer(value)
        return True

    async def wait(self) -> Any:
        """Return the answer. Raises `Void` and `NoAnswer`; cancelled, the question is withdrawn."""
        try:
            await self._asking.settle(self)
        finally:
            self.withdraw()
        if self.void:
            raise Void
        if self.refusal is not None:
            raise NoAnswer(self.refusal)
        return self.answer

    def withdraw(self) -> None:
        """Ask it no more, unless it has ended already; whoever waits for the answer gets `Void`."""
        if not self.settled.is_set():
            self._asking.withdraw(self)

    def claim(self, *, claimed: bool) -> None:
        """Report whether somebody is asked, or all have declined."""
        self.is_unclaimed = not claimed
        self._asking.wake()

    def give_up(self, why: str) -> bool:
        """Nobody will answer it; false when it has ended already."""
        if self.settled.is_set():
            return False
        self._asking.give_up(why)
        return True


class Router(Protocol):
    """Who looks for an answer."""

    def known(self, question: Question) -> tuple[Any] | None:
        """The answer that is known without asking; raises `NoAnswer` where there is to be none."""

    def bound(self, question: Question) -> tuple[float, str]:
        """For how many seconds it is asked, and the setting that says so."""

    def describe(self, asked: Asked) -> Inquiry:
        """What whoever may answer is told."""

    def remember(self, asked: Asked, answer: Any, until: Remember | UnsetType) -> None:
        """Give this answer again when the same program asks the same, if it can be remembered."""

    async def route(self, asked: Asked) -> None:
        """Look for an answer while it is asked, and report by `asked.claim` whether somebody is
        asked; cancelled when it has ended otherwise. Returning leaves it to whoever comes by."""


class Asking:
    """What is asked on behalf of `handle`, and what waits to be asked."""

    __slots__ = ("_count", "_handle", "_is_over", "_queue", "router")

    def __init__(self, handle: Handle, router: Router | None = None) -> None:
        self._handle = handle
        self.router = router
        self._queue: deque[Asked] = deque()
        self._count = 0
        self._is_over = False

    def number(self) -> int:
        """A number for a question, given once."""
        self._count += 1
        return self._count

    @property
    def now(self) -> Asked | None:
        """What is asked now."""
        return self._queue[0] if self._handle.state is State.WAITING else None

    @property
    def is_private(self) -> bool:
        """Whether the answer to what is asked now is nobody's business but the asker's."""
        return self._queue[0].private

    @property
    def needs_a_person(self) -> bool:
        """Whether only a person may answer what is asked now."""
        asked = self.now
        if asked is None or self.router is None:
            return False
        return self.router.describe(asked).needs_a_person

    def put(self, question: Question, *, private: bool = False) -> Asked:
        """Ask at once if nothing else is asked, else when it is its turn. The caller awaits its end,
        or withdraws it."""
        asked = Asked(self, question, private)
        if self._is_over or self._handle.stopped:
            asked.void = True
        elif not self._is_known(asked):
            self._queue.append(asked)
            self.go_on()
            return asked
        asked.settled.set()
        return asked

    def _is_known(self, asked: Asked) -> bool:
        """Whether its end is known without asking."""
        if self.router is None:
            return False
        try:
            known = self.router.known(asked.question)
        except NoAnswer as none:
            asked.refusal = str(none)
            return True
        if known is not None:
            asked.answer = known[0]
        return known is not None

    async def ask(self, question: Question, *, private: bool = False) -> Any:
        """Put a question and return the answer; see `put` and `Asked.wait`."""
        return await self.put(question, private=private).wait()

    def answer(self, value: Any) -> None:
        """Answer what is asked now; the answer has been checked."""
        first = self._queue.popleft()
        first.answer = value
        first.settled.set()
        self._log_end("answered", first)
        self._handle.answer(trio.current_time())
        self.go_on()

    def give_up(self, why: str) -> None:
        """Nobody will answer what is asked now."""
        first = self._queue.popleft()
        first.refusal = why
        first.settled.set()
        self._log_end("failed", first)
        self._handle.withdraw(trio.current_time())
        self.go_on()

    def wake(self) -> None:
        """Tell those who wait for the handle."""
        self._handle.wake()

    def go_on(self) -> None:
        """Ask the first that waits, if the handle runs and nothing is asked."""
        if self._queue and self._handle.state is State.RUNNING:
            first, now = self._queue[0], trio.current_time()
            first.since = now
            self._handle.ask(first.question, now)
            first.turn.set()
            self._log("question asked", first)

    def end(self) -> None:
        """The use has ended: all that is asked is void."""
        self._is_over = True
        while self._queue:
            asked = self._queue.popleft()
            asked.void = True
            asked.settled.set()
            self._log_end("void", asked)

    def _log(self, event: str, asked: Asked, **more: object) -> None:
        handle = self._handle
        log.info(
            event,
            inquiry=handle.inquiry_id,
            tool=handle.tool,
            handle=handle.id,
            question=asked.question.id,
            **more,
        )

    def _log_end(self, how: str, asked: Asked) -> None:
        if asked.turn.is_set():
            duration_s = round(trio.current_time() - asked.since, 3)
            self._log("question settled", asked, how=how, duration_s=duration_s)

    async def settle(self, asked: Asked) -> None:
        """Return when it has ended; meanwhile the router looks for an answer."""
        if self.router is None or asked.settled.is_set():
            await asked.settled.wait()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._route, self.router, asked)
            await asked.settled.wait()
            nursery.cancel_scope.cancel()

    async def _route(self, router: Router, asked: Asked) -> None:
        await asked.turn.wait()
        if asked.settled.is_set():
            return  # it was answered as soon as it was asked
        bound_s, setting = router.bound(asked.question)
        with trio.move_on_after(bound_s):
            try:
                await router.route(asked)
            except Exception:
                log.exception("a question could not be asked", handle=self._handle.id)
                asked.give_up(fault())
            await asked.settled.wait()
        asked.give_up(
            f"nobody has answered question {shown(asked.question.id)} within {bound_s:g} s ({setting})"
        )

    def withdraw(self, asked: Asked) -> None:
        """Ask it no more."""
        is_first = self._queue[0] is asked
        self._queue.remove(asked)
        asked.void = True
        asked.settled.set()
        self._log_end("withdrawn", asked)
        if is_first and self._handle.state is State.WAITING:
            self._handle.withdraw(trio.current_time())
            self.go_on()
