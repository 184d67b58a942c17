"""A backend that plays a script: who tests the desk, or stands on it, uses it.

Rules: it obeys the rules at the head of `base` and is held to them by the same checker as the others.
Each question takes the next step; without one it declines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import trio

from haft_protocol.inquiries import read_lasting
from haft_protocol.questions import InvalidAnswer

from .base import AGAIN, Answered, Backend, Declined, InquiryFailed, Outcome, Way

__all__ = ["FakeBackend"]


class FakeBackend(Backend):
    """The backend `fake`. A step is a reply as it would come (`{"answer": …}`), an `InquiryFailed`
    that is raised, a `Declined`, or an event: it waits for that, then takes the next step."""

    name = "fake"

    def __init__(self, steps: Iterable[Any] = (), *, takes_secrets: bool = True) -> None:
        self.takes_secrets = takes_secrets
        self.steps = deque(steps)
        self.asked: list[Way] = []
        self.waiting = 0

    async def ask(self, way: Way) -> Outcome:
        """See `base`."""
        self.asked.append(way)
        wrong = 0
        while self.steps and wrong <= AGAIN:
            step = self.steps.popleft()
            match step:
                case trio.Event():
                    self.waiting += 1
                    try:
                        await step.wait()
                    finally:
                        self.waiting -= 1
                case InquiryFailed():
                    raise step
                case Declined():
                    return step
                case _:
                    try:
                        answer, remember = read_lasting(way.inquiry, step)
                        return Answered(answer, {"by": "fake"}, remember)
                    except InvalidAnswer:
                        wrong += 1
        return Declined("it has no answer")
