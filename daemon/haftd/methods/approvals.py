"""approvals/list and approvals/decide: pending approvals that the client might be asked for; the
first valid decision counts."""

from __future__ import annotations

import msgspec

from haft_protocol.approvals import Approval, Decided
from haft_protocol.errors import approval_gone, invalid_params
from haft_protocol.methods import (
    ApprovalsDecideParams,
    ApprovalsListParams,
    ApprovalsListResult,
)
from haft_protocol.questions import InvalidAnswer
from haftd.caller import Caller
from haftd.inquiries.kind import Answered
from haftd.inquiries.router import InquiryRouter

from .access import Access


def approvals_list(
    access: Access, router: InquiryRouter, caller: Caller, params: ApprovalsListParams
) -> ApprovalsListResult:
    name = access.session_of(caller, params)
    approvals = router.listed(Approval, None if name == "*" else name, caller)
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
        raise caller.refusal("decide what waits for approval")
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
