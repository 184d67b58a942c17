"""What is asked at the end of a turn: of each handle that is open, whether it is waited for, ended or
kept.

Rules: pure. One question, with a choice for each handle; the more handles, the less is shown of each,
so that the whole stays within what a person or a model reads. What a program has printed stands on
lines of its own, behind a bar. Section 7, `inquire`.
"""

from __future__ import annotations

from collections.abc import Sequence

from haft_protocol.questions import Choice, Form, Question

from .handles import Handle
from .lastlines import last_lines, printable

__all__ = ["DECISIONS", "QUESTION", "question_of"]

QUESTION = "turn_end"
"""The id of the question."""

DECISIONS = ("wait", "abort", "keep")

_MOST_LINES = 5
_LONGEST_LINE = 160
_SHOWN = 16_384
"""Characters of output in one question."""


def question_of(handles: Sequence[Handle], now: float) -> Question:
    """The question about these, as they are."""
    count = len(handles)
    room = _SHOWN // max(1, count)
    longest = min(_LONGEST_LINE, max(40, room))
    lines = max(1, min(_MOST_LINES, room // longest))
    told = "\n".join(_told(handle, now, lines, longest) for handle in handles)
    what = "1 program still runs" if count == 1 else f"{count} programs still run"
    return Question(
        id=QUESTION,
        text=f"The turn ends and {what}. For each: wait until it has stopped, abort it, or keep it "
        "running?",
        answer_type=Form({one.id: Choice(DECISIONS, _brief(one, now)) for one in handles}),
        pre_amble=told,
    )


def _brief(handle: Handle, now: float) -> str:
    """One line about a handle, none of it the program's."""
    said = f"{handle.tool}, {handle.state} for {_span(now - handle.born)}"
    if handle.last_output is not None:
        said += f", last output {_span(now - handle.last_output)} ago"
    return said


def _told(handle: Handle, now: float, lines: int, longest: int) -> str:
    said = [f"{handle.id}: {_brief(handle, now)}"]
    if handle.question is not None:
        said.append(f"  asks: {printable(handle.question.text, longest)}")
    said += [f"  | {line}" for line in last_lines(handle, lines, longest)]
    return "\n".join(said)


def _span(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7_200 else f"{whole // 3_600} h"
