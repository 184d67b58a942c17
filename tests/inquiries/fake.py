"""Scripted backend for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import trio

from haftd.inquiries.backend import Backend, Candidate, Declined, InquiryFailed
from haftd.inquiries.kind import Message
from haftd.inquiries.pending_inquiry import PendingInquiry


class FakeBackend(Backend):
    """Backend `fake`. A step is a raw reply (`{"answer": …}`), an `InquiryFailed` or `Declined` to
    raise, or an event to wait for; without steps it declines."""

    name = "fake"

    def __init__(self, steps: Iterable[Any] = (), *, takes_secrets: bool = True) -> None:
        self.takes_secrets = takes_secrets
        self.steps = deque(steps)
        self.asked: list[PendingInquiry] = []
        self.waiting = 0

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        self.asked.append(pending)
        yield Candidate(self._play, {"by": "fake"})

    async def _play(self, message: Message) -> object:
        while self.steps:
            match step := self.steps.popleft():
                case trio.Event():
                    self.waiting += 1
                    try:
                        await step.wait()
                    finally:
                        self.waiting -= 1
                case InquiryFailed() | Declined():
                    raise step
                case _:
                    return step
        raise Declined("it has no answer")
