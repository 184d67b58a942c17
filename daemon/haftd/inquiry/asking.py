"""The questions of one handle: asked one at a time, in order of arrival, whoever asks them.

Rules: a question is asked while the handle runs; the others wait behind it, and the state of the
handle is that of the first. Each ends once: it is answered, or given up as nobody will answer it, or
withdrawn with the task that asks, or void when the handle has ended. Whoever answers first counts.
While it is asked a router looks for somebody who answers; what needs no asking it answers at once.
An answer is held only until it is handed to whoever asked.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import structlog
import trio
from msgspec import UnsetType

from haft_protocol.approvals import Remember
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

    __slots__ = ("_asking", "answer", "private", "question", "refusal", "settled", "turn", "void")

    def __init__(self, asking: Asking, question: Question, private: bool) -> None:
        self.question = question
        self.private = private or isinstance(question.answer_type, Secret)
        self.turn = trio.Event()
        self.settled = trio.Event()
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

    def describe(self, asked: Asked) -> Inquiry:
        """What whoever may answer is told."""

    def remember(self, asked: Asked, answer: Any, until: Remember | UnsetType) -> None:
        """Give this answer again when the same program asks the same, if it can be remembered."""

    async def route(self, asked: Asked) -> None:
        """Look for an answer while it is asked; cancelled when it has ended otherwise. Returning
        leaves it to whoever comes by."""


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

    async def ask(self, question: Question, *, private: bool = False) -> Any:
        """Ask when it is its turn, and return the answer; cancelled, it is asked no more.

        Raises `Void` when the handle ends, or has ended, and `NoAnswer`."""
        if self._is_over or self._handle.stopped:
            raise Void
        if self.router is not None and (known := self.router.known(question)) is not None:
            return known[0]
        asked = Asked(self, question, private)
        self._queue.append(asked)
        self.go_on()
        try:
            await self._settle(asked)
        finally:
            if not asked.settled.is_set():
                self._withdraw(asked)
        if asked.void:
            raise Void
        if asked.refusal is not None:
            raise NoAnswer(asked.refusal)
        return asked.answer

    def answer(self, value: Any) -> None:
        """Answer what is asked now; the answer has been checked."""
        first = self._queue.popleft()
        first.answer = value
        first.settled.set()
        self._handle.answer(trio.current_time())
        self.go_on()

    def give_up(self, why: str) -> None:
        """Nobody will answer what is asked now."""
        first = self._queue.popleft()
        first.refusal = why
        first.settled.set()
        self._handle.withdraw(trio.current_time())
        self.go_on()

    def go_on(self) -> None:
        """Ask the first that waits, if the handle runs and nothing is asked."""
        if self._queue and self._handle.state is State.RUNNING:
            self._handle.ask(self._queue[0].question, trio.current_time())
            self._queue[0].turn.set()

    def end(self) -> None:
        """The use has ended: all that is asked is void."""
        self._is_over = True
        while self._queue:
            asked = self._queue.popleft()
            asked.void = True
            asked.settled.set()

    async def _settle(self, asked: Asked) -> None:
        if self.router is None:
            await asked.settled.wait()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._route, self.router, asked)
            await asked.settled.wait()
            nursery.cancel_scope.cancel()

    async def _route(self, router: Router, asked: Asked) -> None:
        await asked.turn.wait()
        try:
            await router.route(asked)
        except Exception:
            log.exception("a question could not be asked", handle=self._handle.id)
            asked.give_up(fault())

    def _withdraw(self, asked: Asked) -> None:
        is_first = self._queue[0] is asked
        self._queue.remove(asked)
        if is_first and self._handle.state is State.WAITING:
            self._handle.withdraw(trio.current_time())
            self.go_on()
