"""A tool's result is withheld until a user releases it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from haft_protocol.approvals import Approval as ApprovalMessage
from haft_protocol.errors import invalid_arguments
from haftd.core.handles import Handle
from haftd.core.withheld import ResultExcerpt, ReviewDecision
from haftd.tools.definitions.approval_policy import escape_invisible

from .approval import Approval, request_approval
from .kind import InquiryContext
from .router import InquiryRouter

_MAX_RENDERED = 32_768
"""Characters of a rendered result: clients show it in a dialogue, and can fetch no more of it."""


class ResultReview(Approval, frozen=True, kw_only=True, eq=False):
    """Approval of the action `result`; its one argument is `text`, the text released."""

    shown: ResultExcerpt

    def make_message(self) -> ApprovalMessage:
        shown = self.shown
        return msgspec.structs.replace(
            super().make_message(), failed=shown.failed, bytes=shown.bytes, omitted=shown.omitted
        )


async def review(
    router: InquiryRouter,
    context: InquiryContext,
    handle: Handle,
    shown: ResultExcerpt,
    mode: Literal["ask", "edit", "skip"],
) -> ReviewDecision:
    """Wait for the decision on a result. Raises `RpcError` (not_approved, shutting_down)."""
    tool = handle.tool
    if mode == "skip":
        return ReviewDecision(
            "skip", explanation=_explain_withholding(tool, "its definition says so")
        )
    failure = "" if shown.failure is None else f"{shown.failure}\n"
    decision = await request_approval(
        router,
        ResultReview(
            context=context,
            session=handle.session,
            tool=handle.tool,
            handle=handle,
            action="result",
            arguments={"text": shown.text},
            # Escapes lengthen the limited text.
            rendered=escape_invisible(f"{failure}{shown.text}", most=_MAX_RENDERED),
            mode=mode,
            check=lambda arguments: _read_replacement(tool, arguments),
            shown=shown,
        ),
    )
    if decision is None:
        raise AssertionError("the review ended without a decision")
    if decision.decision == "skip":
        return ReviewDecision("skip", explanation=_explain_withholding(tool, decision.reason))
    if decision.edited is not None:
        return ReviewDecision("edit", text=decision.edited)
    return ReviewDecision("allow")


def _read_replacement(tool: str, arguments: dict[str, Any]) -> str:
    text = arguments.get("text")
    if not isinstance(text, str):
        problem = {"path": "text", "message": "it is missing; it is the text that is released"}
        if "text" in arguments:
            problem["message"] = "it must be a string, the text that is released"
        raise invalid_arguments(tool, [problem])
    if unknown := sorted(set(arguments) - {"text"}):
        message = "a result can only have a `text`"
        raise invalid_arguments(tool, [{"path": name, "message": message} for name in unknown])
    return text


def _explain_withholding(tool: str, reason: str) -> str:
    message = f"`{tool}` has run, and its result was not released"
    return message + (f": {reason.rstrip('.')}." if reason else ".")
