"""What is asked of a session at the end of its turn: one question about handles that are open.

Rules: it is asked as a tool's question is, of the same backends in the same order, and pulled by
`inquiries/list`. It has one end: an answer, no answer (its time is over, or the inquiry has
failed), or nothing left to ask about. It belongs to no connection: whoever asked may be gone. A handle
is asked about by one question at a time, and drops out when it stops; an answer that still names it is
as good as one that does not. Where there is no answer the handles are aborted: that is what the
end of a turn is for those of whom nobody says otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
import trio
from msgspec import UNSET

from haft_protocol.inquiries import Inquiry, Target, schema, turn_end_id
from haft_protocol.methods import TurnDecision
from haft_protocol.questions import InvalidAnswer, check_answer
from haftd.core.handles import Handle
from haftd.core.outcomes import fault
from haftd.core.turnend import question_of

from .base import InquiryFailed, Origin, Way
from .desk import Desk

__all__ = ["TurnEnd", "TurnEnds"]

log = structlog.get_logger("haftd.inquiry")

Decide = Callable[[Mapping[Handle, TurnDecision]], None]
"""Does what was decided of those that still run; called once, unless nothing is left to decide."""


class TurnEnd:
    """One question, and what became of it: `decided` of each handle, and `why` where nobody has."""

    def __init__(
        self,
        inquiry_id: str,
        session: str,
        handles: Sequence[Handle],
        origin: Origin,
        target: Target,
        decide: Decide,
    ) -> None:
        self.id = inquiry_id
        self.session = session
        self.handles = tuple(handles)
        self.origin = origin
        self.settled = trio.Event()
        self.decided: dict[Handle, TurnDecision] = {}
        self.why = ""
        self.since = trio.current_time()
        self.is_unclaimed = False
        """Whether all who can be asked have declined."""
        self._target = target
        self._decide = decide
        for handle in self.handles:
            handle.listen(self._look)

    def claim(self, claimed: bool) -> None:
        """Take note whether somebody is asked, or all have declined."""
        self.is_unclaimed = not claimed

    @property
    def open(self) -> list[Handle]:
        """Those that it is still about."""
        return [handle for handle in self.handles if not handle.stopped]

    def describe(self) -> Inquiry:
        """What is asked, as of now."""
        question = question_of(self.open, trio.current_time())
        context = self.origin.context
        return Inquiry(
            session=self.session,
            inquiry_id=self.id,
            question=question,
            schema=schema(self.id, question.answer_type),
            target=self._target,
            context=UNSET if context is None else context,
        )

    def read(self, answer: object) -> dict[str, Any]:
        """The answer for those that are left; raises `InvalidAnswer`, and then it is still asked."""
        gone = {handle.id for handle in self.handles if handle.stopped}
        if isinstance(answer, dict):
            answer = {name: one for name, one in answer.items() if name not in gone}
        question = question_of(self.open, trio.current_time())
        checked = check_answer(question, answer)
        if not isinstance(checked, dict):
            raise AssertionError("the answer to a form is an object")
        return checked

    def give(self, answer: Mapping[str, Any]) -> bool:
        """Answer it with what was read; false when it has ended already."""
        return self._settle({one: answer[one.id] for one in self.open}, "")

    def give_up(self, why: str) -> bool:
        """Nobody will answer it: all that is left is aborted."""
        return self._settle(dict.fromkeys(self.open, "abort"), why)

    def close(self) -> None:
        """It is asked no more, and nothing is to be done."""
        if not self.settled.is_set():
            for handle in self.handles:
                handle.unlisten(self._look)
            self.settled.set()

    def _settle(self, decided: dict[Handle, TurnDecision], why: str) -> bool:
        if self.settled.is_set():
            return False
        self.decided, self.why = decided, why
        self.close()
        self._decide(decided)
        return True

    def _look(self) -> None:
        if not self.open:
            self.close()


class TurnEnds:
    """Those that are asked now. `nursery` holds a task for each; `desk` finds whoever answers."""

    def __init__(self, nursery: trio.Nursery, desk: Desk) -> None:
        self._nursery = nursery
        self._desk = desk
        self._numbers = itertools.count(1)
        self._asked: list[TurnEnd] = []

    def ask(
        self,
        session: str,
        handles: Sequence[Handle],
        origin: Origin,
        target: Target,
        timeout_s: float,
        decide: Decide,
    ) -> TurnEnd:
        """Ask about these, none of which is asked about already, for so long at most."""
        one = TurnEnd(
            turn_end_id(session, next(self._numbers)), session, handles, origin, target, decide
        )
        self._asked.append(one)
        self._nursery.start_soon(self._see_through, one, timeout_s)
        return one

    def open(self, session: str | None = None) -> list[TurnEnd]:
        """What is asked in a session, or in all, the longest first."""
        return [
            one
            for one in self._asked
            if session in (None, one.session) and not one.settled.is_set()
        ]

    def close(self, session: str) -> None:
        """The session is closed: nothing is asked in it any more."""
        for one in self.open(session):
            one.close()

    async def _see_through(self, one: TurnEnd, timeout_s: float) -> None:
        try:
            with trio.move_on_after(timeout_s):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._route, one)
                    await one.settled.wait()
                    nursery.cancel_scope.cancel()
        finally:
            self._asked.remove(one)
        one.give_up(f"nobody has answered within {timeout_s:g} s")

    async def _route(self, one: TurnEnd) -> None:
        way = Way(one.describe(), one.origin, "turn_end", renew=one.describe, claim=one.claim)
        try:
            found = await self._desk.find(way)
            answer = one.read(found.answer)
        except InquiryFailed as failed:
            one.give_up(f"the inquiry failed: {failed}")
        except InvalidAnswer:
            # It fitted what was asked, so it says nothing of what is left.
            one.give_up("the answer was for what has stopped meanwhile")
        except Exception:
            log.exception("a turn's end could not be asked about", inquiry=one.id)
            one.give_up(fault())
        else:
            if not one.settled.is_set():
                # Before what comes of it.
                self._desk.record_of_session(one.session, one.id, answer, **found.who)
                one.give(answer)
