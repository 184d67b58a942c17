"""approvals/list and approvals/decide: the way to what waits for approval, for a client that is not asked.

Rules: both see what a client with the capability is asked. First come, first served; a decision that
cannot be is refused and changes nothing.
"""

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
    """List what waits in the session, or in all, the longest first."""
    name = access.session_of(caller, params)
    found = router.listed(Approval, None if name == "*" else name, caller)
    return ApprovalsListResult(tuple(approval for _, approval in found))


def approvals_decide(
    access: Access, router: InquiryRouter, caller: Caller, params: ApprovalsDecideParams
) -> dict[str, object]:
    """Decide it. Raises `invalid_answer` where nothing waits under the id, or not any more, and
    `invalid_arguments` for changed ones that are wrong, and `not_authorized`; then it still waits."""
    session = access.session_of(caller, params)
    if not caller.may("approvals"):
        raise caller.refusal("decide what waits for approval")
    decided = Decided(params.decision, params.arguments, params.remember, params.reason)
    try:
        decided.check()
    except InvalidAnswer as wrong:
        raise invalid_params(str(wrong)) from None
    found = router.find(Approval, session, caller, params.approval_id)
    if found is None:
        raise approval_gone(params.approval_id, session)
    pending, _ = found
    value, remember = pending.kind.read(msgspec.to_builtins(decided))
    router.accept(pending, Answered(value, caller=caller, remember=remember))
    return {}
