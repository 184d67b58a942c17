"""The questions of one handle: asked one at a time, in order of arrival, whoever asks them.

Rules: a question is asked while the handle runs; the others wait behind it, and the state of the
handle is that of the first. Each ends once: it is answered, or withdrawn with the task that asks,
or void when the handle has ended. An answer is held only until it is handed to whoever asked.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import trio

from haft_protocol.questions import Question, Secret
from haftd.core.handles import Handle
from haftd.core.lifecycle import State

__all__ = ["Asking", "Void"]


class Void(Exception):
    """The handle has ended; nobody will answer any more."""


class _Asked:
    __slots__ = ("answer", "private", "question", "settled", "void")

    def __init__(self, question: Question, private: bool) -> None:
        self.question = question
        self.private = private
        self.settled = trio.Event()
        self.void = False
        self.answer: Any = None


class Asking:
    """What is asked on behalf of `handle`, and what waits to be asked."""

    __slots__ = ("_count", "_handle", "_queue")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._queue: deque[_Asked] = deque()
        self._count = 0

    def number(self) -> int:
        """A number for a question, given once."""
        self._count += 1
        return self._count

    @property
    def is_private(self) -> bool:
        """Whether the answer to what is asked now is nobody's business but the asker's."""
        first = self._queue[0]
        return first.private or isinstance(first.question.answer_type, Secret)

    async def ask(self, question: Question, *, private: bool = False) -> Any:
        """Ask when it is its turn, and return the answer; cancelled, it is asked no more.

        Raises `Void` when the handle ends, or has ended."""
        if self._handle.stopped:
            raise Void
        asked = _Asked(question, private)
        self._queue.append(asked)
        self.go_on()
        try:
            await asked.settled.wait()
        finally:
            if not asked.settled.is_set():
                self._withdraw(asked)
        if asked.void:
            raise Void
        return asked.answer

    def answer(self, value: Any) -> None:
        """Answer what is asked now; the answer has been checked."""
        first = self._queue.popleft()
        first.answer = value
        first.settled.set()
        self._handle.answer(trio.current_time())
        self.go_on()

    def go_on(self) -> None:
        """Ask the first that waits, if the handle runs and nothing is asked."""
        if self._queue and self._handle.state is State.RUNNING:
            self._handle.ask(self._queue[0].question, trio.current_time())

    def end(self) -> None:
        """The handle has ended: all that is asked is void."""
        while self._queue:
            asked = self._queue.popleft()
            asked.void = True
            asked.settled.set()

    def _withdraw(self, asked: _Asked) -> None:
        is_first = self._queue[0] is asked
        self._queue.remove(asked)
        if is_first and self._handle.state is State.WAITING:
            self._handle.withdraw(trio.current_time())
            self.go_on()
