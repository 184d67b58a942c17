"""inquiries/list and inquiries/answer: the way to questions for a client that is not asked.

Rules: both see what is asked as a client with the capability does. An answer is a person's, first
come, first served: who is being asked the same hears that it is no longer wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from haft_protocol.errors import inquiry_gone, invalid_answer, question_gone
from haft_protocol.inquiries import Inquiry, check_remember
from haft_protocol.methods import (
    InquiriesAnswerParams,
    InquiriesListParams,
    InquiriesListResult,
)
from haft_protocol.questions import InvalidAnswer, check_answer
from haftd.asking import Asked
from haftd.audit import typed
from haftd.caller import Caller
from haftd.daemon import Daemon
from haftd.use import Use

__all__ = ["inquiries_answer", "inquiries_list"]


def inquiries_list(
    daemon: Daemon, caller: Caller, params: InquiriesListParams
) -> InquiriesListResult:
    """List what is asked in the session, or in all, oldest handle first."""
    name = daemon.session_of(caller, params)
    found = _open(daemon, None if name == "*" else name)
    return InquiriesListResult(tuple(inquiry for _, _, inquiry in found))


def inquiries_answer(
    daemon: Daemon, caller: Caller, params: InquiriesAnswerParams
) -> dict[str, object]:
    """Answer it. Raises `invalid_answer` where it is not asked, or not any more, or the answer does
    not fit; then it is still open."""
    session = daemon.session_of(caller, params)
    wanted = params.question
    found = [one for one in _open(daemon, session) if one[2].inquiry_id == params.inquiry_id]
    if not found:
        raise inquiry_gone(params.inquiry_id, session)
    use, asked, inquiry = found[0]
    handle = use.handle
    if not isinstance(wanted, UnsetType) and wanted != asked.question.id:
        raise question_gone(handle.id, wanted)
    try:
        value = check_answer(asked.question, params.answer)
        check_remember(inquiry, params.remember)
    except InvalidAnswer as wrong:
        raise invalid_answer(str(wrong)) from None
    asked.give(value)
    if use.asking.router is not None:
        use.asking.router.remember(asked, value, params.remember)
    said: dict[str, object] = {"withheld": True} if asked.private else typed(value)
    if params.remember is not UNSET:
        said["remember"] = params.remember
    daemon.record("answer", caller, handle, by="client", question=asked.question.id, **said)
    return {}


def _open(daemon: Daemon, session: str | None) -> Iterator[tuple[Use, Asked, Inquiry]]:
    for use in daemon.supervisor.uses(session):
        asked, router = use.asking.now, use.asking.router
        if asked is not None and router is not None:
            yield use, asked, router.describe(asked)
