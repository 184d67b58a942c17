"""Question at a turn's end: wait for, abort or keep each open handle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Remember
from haft_protocol.inquiries import ASK, Inquiry, Target, read_remembered_answer, schema
from haft_protocol.methods import TurnDecision
from haft_protocol.questions import Choice, Form, Question
from haftd.core.handles import Handle
from haftd.core.views import last_lines, printable

from .kind import Answered, End, InquiryKind, Timeouts, Unanswered, Withdrawn

_DECISIONS = ("wait", "abort", "keep")
_MAX_LINES = 5
"""Last lines of a handle's output: enough to see what it does."""
_MAX_LINE_LENGTH = 160
"""Characters."""
_MAX_OUTPUT = 16_384
"""Characters of all handles' output in one question; beyond 409 handles, 40 for each."""


class TurnEnd(InquiryKind, frozen=True, kw_only=True, eq=False):
    """Question about the handles in `depends_on`. The outcome has the decision for each handle that
    still runs, empty after a withdrawal."""

    method = ASK
    capability = "inquiry"
    permission = "questions"

    tool: str = "turn_end"
    order: tuple[float, ...] = (1,)
    target: Target
    timeout_s: float
    decide: Callable[[Mapping[Handle, TurnDecision]], None]
    """Apply the decisions for the handles that still run, all `abort` if the question is unanswered;
    not called after a withdrawal."""

    @property
    def _open(self) -> list[Handle]:
        return [handle for handle in self.depends_on if not handle.stopped]

    def make_message(self) -> Inquiry:
        question = make_question(self._open, trio.current_time())
        context = self.context.context
        return Inquiry(
            session=self.session,
            inquiry_id=self.id,
            question=question,
            schema=schema(self.id, question.answer_type),
            target=self.target,
            context=UNSET if context is None else context,
        )

    def read(self, reply: object) -> tuple[Any, Remember | UnsetType]:
        if isinstance(reply, dict) and isinstance(answer := reply.get("answer"), dict):
            stopped = {handle.id for handle in self.depends_on if handle.stopped}
            left = {name: choice for name, choice in answer.items() if name not in stopped}
            reply = {**reply, "answer": left}
        return read_remembered_answer(self.make_message(), reply)

    def choose_timeout(self, timeouts: Timeouts) -> tuple[float, str]:
        return self.timeout_s, f"nobody answered within {self.timeout_s:g} s"

    def explain_failure(self, reason: str) -> str:
        return f"the inquiry failed: {reason}"

    def make_audit_record(self, answer: Answered) -> tuple[str, dict[str, object]]:
        about = {"session": self.session, "question": self.id, "answer": answer.value}
        return "answer", {**answer.source, **about}

    def follow(self, end: End) -> dict[Handle, TurnDecision]:
        decided: dict[Handle, TurnDecision] = {}
        if isinstance(end, Answered):
            decided = {handle: end.value[handle.id] for handle in self._open}
        elif isinstance(end, Unanswered):
            decided = dict.fromkeys(self._open, "abort")
        if not isinstance(end, Withdrawn):
            self.decide(decided)
        return decided

    def end_on_close(self, *, stopping: bool) -> Withdrawn | None:
        return None if stopping else Withdrawn()


def make_question(handles: Sequence[Handle], now: float) -> Question:
    """Return the question about these handles; the more handles, the less output of each."""
    count = len(handles)
    room = _MAX_OUTPUT // max(1, count)
    longest = min(_MAX_LINE_LENGTH, max(40, room))
    lines = max(1, min(_MAX_LINES, room // longest))
    described = "\n".join(_describe(handle, now, lines, longest) for handle in handles)
    subject = "1 program still runs" if count == 1 else f"{count} programs still run"
    return Question(
        id="turn_end",
        text=f"The turn ends and {subject}. For each: wait until it has stopped, abort it, or keep it "
        "running?",
        answer_type=Form(
            {handle.id: Choice(_DECISIONS, _summarize(handle, now)) for handle in handles}
        ),
        pre_amble=described,
    )


def _summarize(handle: Handle, now: float) -> str:
    text = f"{handle.tool}, {handle.state} for {_format_span(now - handle.created_at)}"
    if handle.last_output is not None:
        text += f", last output {_format_span(now - handle.last_output)} ago"
    return text


def _describe(handle: Handle, now: float, lines: int, longest: int) -> str:
    text = [f"{handle.id}: {_summarize(handle, now)}"]
    if handle.question is not None:
        text.append(f"  asks: {printable(handle.question.text, longest)}")
    text += [f"  | {line}" for line in last_lines(handle, lines, longest)]
    return "\n".join(text)


def _format_span(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7_200 else f"{whole // 3_600} h"
