"""approvals/list and approvals/decide: the way to what waits for a person's word, for a client that
is not asked.

Rules: both see what a client with the capability is asked. First come, first served; a decision that
cannot be is refused and changes nothing.
"""

from __future__ import annotations

from haft_protocol.approvals import BadDecision, Decided
from haft_protocol.errors import approval_gone, invalid_params
from haft_protocol.methods import (
    ApprovalsDecideParams,
    ApprovalsListParams,
    ApprovalsListResult,
)
from haftd.caller import Caller
from haftd.daemon import Daemon

__all__ = ["approvals_decide", "approvals_list"]


def approvals_list(
    daemon: Daemon, caller: Caller, params: ApprovalsListParams
) -> ApprovalsListResult:
    """List what waits in the session, or in all, the longest first."""
    name = daemon.session_of(caller, params)
    return ApprovalsListResult(tuple(daemon.approvals.waiting(None if name == "*" else name)))


def approvals_decide(
    daemon: Daemon, caller: Caller, params: ApprovalsDecideParams
) -> dict[str, object]:
    """Decide it. Raises `invalid_answer` where nothing waits under the id, or not any more, and
    `invalid_arguments` for changed ones that are wrong, and `not_authorized`; then it still waits."""
    session = daemon.session_of(caller, params)
    if not caller.may("approvals"):
        raise caller.refusal("decide what waits for approval")
    decided = Decided(params.decision, params.arguments, params.remember, params.reason)
    try:
        decided.check()
    except BadDecision as wrong:
        raise invalid_params(str(wrong)) from None
    if not daemon.approvals.decide(session, params.approval_id, decided, caller):
        raise approval_gone(params.approval_id, session)
    return {}
