"""inquiries/list and inquiries/answer: the way to questions for a client that is not asked.

Rules: both see what is asked as a client with the capability does. An answer is a person's, first
come, first served: who is being asked the same hears that it is no longer wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET, UnsetType

from haft_protocol.errors import inquiry_gone, invalid_answer, question_gone, shown
from haft_protocol.inquiries import Inquiry, check_remember
from haft_protocol.methods import (
    InquiriesAnswerParams,
    InquiriesListParams,
    InquiriesListResult,
)
from haft_protocol.questions import InvalidAnswer, check_answer
from haftd.audit import typed
from haftd.caller import Caller
from haftd.daemon import Daemon
from haftd.inquiry.asking import Asked
from haftd.inquiry.turnend import TurnEnd
from haftd.uses.use import Use

__all__ = ["inquiries_answer", "inquiries_list"]


def inquiries_list(
    daemon: Daemon, caller: Caller, params: InquiriesListParams
) -> InquiriesListResult:
    """List what is asked in the session, or in all, oldest handle first, then of ends of turns."""
    name = daemon.session_of(caller, params)
    asked, ends = daemon.questions(caller, None if name == "*" else name)
    found = [inquiry for _, _, inquiry in _described(asked)]
    found += [one.describe() for one in ends]
    return InquiriesListResult(tuple(found))


def inquiries_answer(
    daemon: Daemon, caller: Caller, params: InquiriesAnswerParams
) -> dict[str, object]:
    """Answer it. Raises `invalid_answer` where it is not asked, or not any more, or the answer does
    not fit; then it is still open."""
    session = daemon.session_of(caller, params)
    open_ones, ends = daemon.questions(caller, session)
    try:
        for end in ends:
            if end.id == params.inquiry_id:
                return _answer_turn_end(daemon, caller, params, end)
        for use, asked, inquiry in _described(open_ones):
            if inquiry.inquiry_id == params.inquiry_id:
                return _answer_tool(daemon, caller, params, use, asked, inquiry)
    except InvalidAnswer as wrong:
        raise invalid_answer(str(wrong)) from None
    raise inquiry_gone(params.inquiry_id, session)


def _answer_tool(
    daemon: Daemon,
    caller: Caller,
    params: InquiriesAnswerParams,
    use: Use,
    asked: Asked,
    inquiry: Inquiry,
) -> dict[str, object]:
    wanted = params.question
    if not isinstance(wanted, UnsetType) and wanted != asked.question.id:
        raise question_gone(use.handle.id, wanted)
    _check_person(caller, params, inquiry)
    value = check_answer(asked.question, params.answer)
    check_remember(inquiry, params.remember)
    asked.give(value)
    if use.asking.router is not None:
        use.asking.router.remember(asked, value, params.remember)
    said: dict[str, object] = {"withheld": True} if asked.private else typed(value)
    if params.remember is not UNSET:
        said["remember"] = params.remember
    daemon.record("answer", caller, use.handle, by="client", question=asked.question.id, **said)
    return {}


def _answer_turn_end(
    daemon: Daemon, caller: Caller, params: InquiriesAnswerParams, end: TurnEnd
) -> dict[str, object]:
    inquiry = end.describe()
    wanted = params.question
    if not isinstance(wanted, UnsetType) and wanted != inquiry.question.id:
        raise InvalidAnswer(f"it does not ask {shown(wanted)}")
    _check_person(caller, params, inquiry)
    check_remember(inquiry, params.remember)
    value = end.read(params.answer)
    said: dict[str, Any] = typed(value)
    # What it was asked about is recorded before what comes of it.
    daemon.record("answer", caller, by="client", session=end.session, question=end.id, **said)
    end.give(value)
    return {}


def _check_person(caller: Caller, params: InquiriesAnswerParams, inquiry: Inquiry) -> None:
    """Raise `not_authorized` where only a person may give the answer, or have it remembered."""
    if caller.may("questions"):
        return
    if inquiry.needs_a_person:
        raise caller.refusal("answer what a person is asked")
    if params.remember is not UNSET:
        raise caller.refusal("have an answer remembered")


def _described(questions: Iterable[tuple[Use, Asked]]) -> Iterator[tuple[Use, Asked, Inquiry]]:
    for use, asked in questions:
        if use.asking.router is not None:
            yield use, asked, use.asking.router.describe(asked)
