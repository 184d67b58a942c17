"""inquiries/list, inquiries/answer: open questions that the client might be asked; inquiries/ask:
its own; approvals/list, approvals/decide: actions that await approval.

The first answer counts; other requests are cancelled.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Approval, Decided
from haft_protocol.errors import (
    approval_gone,
    inquiry_gone,
    invalid_answer,
    invalid_params,
    question_gone,
    shown,
    unanswered,
)
from haft_protocol.inquiries import Inquiry, client_question_id
from haft_protocol.methods import (
    ApprovalsDecideParams,
    ApprovalsListParams,
    ApprovalsListResult,
    InquiriesAnswerParams,
    InquiriesAskParams,
    InquiriesAskResult,
    InquiriesListParams,
    InquiriesListResult,
)
from haft_protocol.questions import InvalidAnswer, Question, read_question
from haftd.caller import Caller
from haftd.inquiries.client_question import ClientQuestion
from haftd.inquiries.kind import Answered, InquiryContext, Unanswered, Withdrawn
from haftd.inquiries.router import InquiryRouter

from .access import Access
from .base import DeferredReply


def inquiries_list(
    access: Access, router: InquiryRouter, caller: Caller, params: InquiriesListParams
) -> InquiriesListResult:
    """List open questions: of handles (oldest first), of turns' ends, then clients' own."""
    name = access.session_of(caller, params)
    inquiries = router.list_open(Inquiry, None if name == "*" else name, caller)
    return InquiriesListResult(tuple(inquiry for _, inquiry in inquiries))


def inquiries_answer(
    access: Access, router: InquiryRouter, caller: Caller, params: InquiriesAnswerParams
) -> dict[str, object]:
    """Answer a question; raises `invalid_answer` if closed or unfit, which leaves it open."""
    session = access.session_of(caller, params)
    entry = router.find(Inquiry, session, caller, params.inquiry_id)
    if entry is None:
        raise inquiry_gone(params.inquiry_id, session)
    pending, inquiry = entry
    question = params.question
    if not isinstance(question, UnsetType) and question != inquiry.question.id:
        if isinstance(inquiry.handle, UnsetType):
            raise invalid_answer(f"it does not ask {shown(question)}")
        raise question_gone(inquiry.handle, question)
    _check_person(caller, params, inquiry)
    until = {} if params.remember is UNSET else {"remember": params.remember}
    try:
        value, remember = pending.kind.read({"answer": params.answer, **until})
    except InvalidAnswer as wrong:
        raise invalid_answer(str(wrong)) from None
    source = {"by": "client", "client": caller.identity}
    router.accept(pending, Answered(value, source, caller, remember))
    return {}


def inquiries_ask(
    access: Access, router: InquiryRouter, caller: Caller, params: InquiriesAskParams
) -> DeferredReply:
    """Reply with the answer; raises `invalid_answer` if no backend answers, `shutting_down`."""
    session = access.session_of(caller, params)
    kind = ClientQuestion(
        context=InquiryContext(caller=caller),
        session=session,
        id=client_question_id(session, router.new_number()),
        question=_valid_question(params.question),
        target=params.target,
        timeout_s=None if isinstance(params.timeout_s, UnsetType) else params.timeout_s,
    )

    async def asked() -> InquiriesAskResult:
        match await router.resolve(router.put(kind)):
            case Answered(value=value):
                return InquiriesAskResult(value)
            case Unanswered(reason=reason):
                raise unanswered(kind.question.id, reason)
            case Withdrawn(error=Exception() as error):
                raise error
        raise AssertionError("the inquiry was withdrawn without an error")

    return DeferredReply(asked)


def _valid_question(question: Question) -> Question:
    try:
        return read_question(msgspec.to_builtins(question))
    except msgspec.ValidationError as error:
        raise invalid_params(f"`question` is wrong: {error}", field="question") from None


def _check_person(caller: Caller, params: InquiriesAnswerParams, inquiry: Inquiry) -> None:
    if caller.may("questions"):
        return
    if inquiry.needs_a_person:
        raise caller.refusal("answer a question for a person")
    if params.remember is not UNSET:
        raise caller.refusal("have an answer remembered")


def approvals_list(
    access: Access, router: InquiryRouter, caller: Caller, params: ApprovalsListParams
) -> ApprovalsListResult:
    name = access.session_of(caller, params)
    approvals = router.list_open(Approval, None if name == "*" else name, caller)
    return ApprovalsListResult(tuple(approval for _, approval in approvals))


def approvals_decide(
    access: Access, router: InquiryRouter, caller: Caller, params: ApprovalsDecideParams
) -> dict[str, object]:
    """Decide an approval.

    Raises `invalid_answer` for an unknown id, `invalid_arguments` for invalid edits,
    `not_authorized`.
    """
    session = access.session_of(caller, params)
    if not caller.may("approvals"):
        raise caller.refusal("decide about an approval")
    decided = Decided(params.decision, params.arguments, params.remember, params.reason)
    try:
        decided.check()
    except InvalidAnswer as wrong:
        raise invalid_params(str(wrong)) from None
    entry = router.find(Approval, session, caller, params.approval_id)
    if entry is None:
        raise approval_gone(params.approval_id, session)
    pending, _ = entry
    value, remember = pending.kind.read(msgspec.to_builtins(decided))
    router.accept(pending, Answered(value, caller=caller, remember=remember))
    return {}
