"""Approval: an action of a tool waits until a user allows it; the deadline denies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, ClassVar, Literal

import structlog
from msgspec import UNSET, UnsetType, structs

from haft_protocol.approvals import ASK_APPROVAL, Decision, PolicedAction, Remember, read_decision
from haft_protocol.approvals import Approval as ApprovalMessage
from haft_protocol.errors import not_approved, shutting_down
from haftd.core.handles import Handle
from haftd.redaction import Redacted

from .kind import Answered, InquiryKind, Timeouts, Unanswered, Withdrawn
from .pending_inquiry import PendingInquiry
from .router import InquiryRouter

_ALLOWING: tuple[Decision, ...] = ("allow", "edit")

log = structlog.get_logger("haftd.inquiries")


class ApprovalDecision(Redacted, frozen=True):
    """Decision on an approval."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("edited",)

    decision: Decision
    reason: str = ""
    edited: Any = None
    """Result of `Approval.check`; None for unchanged arguments."""
    by: str | UnsetType = UNSET
    """Name of the client."""


class Approval(InquiryKind, frozen=True, kw_only=True, eq=False):
    """Approval of an action on a handle, or of its start. Arguments appear in no log."""

    method = ASK_APPROVAL
    capability = "approval"
    permission = "approvals"
    clients_only = True
    UNSHOWN: ClassVar[tuple[str, ...]] = ("arguments", "rendered")

    handle: Handle
    id: str = ""
    """Set by `request_approval`."""
    action: PolicedAction
    arguments: dict[str, Any]
    rendered: str
    env: tuple[str, ...] = ()
    """Variables that the call sets otherwise than the daemon has them."""
    mode: Literal["ask", "edit"]
    check: Callable[[dict[str, Any]], Any]
    """Validate edited arguments. Raises `RpcError` (invalid_arguments)."""
    render: Callable[[], Awaitable[str]] | None = None
    """Computes `rendered`, before any client is asked; if it raises, `rendered` stays as it is."""
    on_allow: Callable[[Any], None] | None = None
    """Called with `ApprovalDecision.edited` as soon as the action is allowed."""

    @property
    def labels(self) -> dict[str, str]:
        return {"handle": self.handle.id, "action": self.action}

    @property
    def is_ready(self) -> bool:
        return self.render is None

    async def prepare(self) -> Approval:
        if self.render is None:
            return self
        try:
            return structs.replace(self, render=None, rendered=await self.render())
        except Exception:
            log.exception("an approval could not be shown", handle=self.handle.id)
            return structs.replace(self, render=None)

    def make_message(self) -> ApprovalMessage:
        return ApprovalMessage(
            approval_id=self.id,
            session=self.session,
            tool=self.tool,
            action=self.action,
            id=self.handle.id,
            arguments=self.arguments,
            rendered=self.rendered,
            root=self.handle.root,
            env=self.env or UNSET,
            mode=self.mode,
        )

    def read(self, reply: object) -> tuple[ApprovalDecision, Remember | UnsetType]:
        decided = read_decision(reply)
        arguments = decided.arguments
        edited = None if isinstance(arguments, UnsetType) else self.check(arguments)
        reason = "" if isinstance(decided.reason, UnsetType) else decided.reason
        return ApprovalDecision(decided.decision, reason, edited), decided.remember

    def choose_timeout(self, timeouts: Timeouts) -> tuple[float, str]:
        seconds = timeouts.approval_s
        return seconds, f"nobody decided within {seconds:g} s (`approval_timeout_s`)"

    @property
    def memory_key(self) -> tuple[Hashable, Hashable]:
        # In another folder the same command may be another program.
        return ("approval", self.tool, self.action), (self.context.bound_to, self.handle.root)

    def make_audit_record(self, answer: Answered) -> tuple[str, dict[str, object]] | None:
        if answer.caller is None:
            return None  # recorded when the decision was made
        more = {"remember": answer.remember, "reason": answer.value.reason or UNSET}
        return "approval", {
            "client": answer.caller.identity,
            "session": self.session,
            "handle": self.handle.id,
            "generation": self.handle.generation,
            "tool": self.tool,
            "action": self.action,
            "decision": answer.value.decision,
            **{key: value for key, value in more.items() if value is not UNSET},
        }

    def end_on_close(self, *, stopping: bool) -> Withdrawn:
        why = "its session was closed"
        return Withdrawn(shutting_down() if stopping else not_approved(self.tool, self.action, why))


async def request_approval(router: InquiryRouter, approval: Approval) -> ApprovalDecision | None:
    """Wait for a decision: allow, edit or skip; None if the handle has stopped before. Raises
    `RpcError` (not_approved for a denial, a deadline and a closed session; shutting_down)."""
    approval = structs.replace(approval, id=router.new_id())

    def ended(pending: PendingInquiry) -> None:
        end, on_allow = pending.end, approval.on_allow
        if on_allow is not None and isinstance(end, Answered) and end.value.decision in _ALLOWING:
            on_allow(end.value.edited)

    match await router.resolve(router.put(approval, on_end=ended)):
        case Answered(value=ApprovalDecision() as decision, caller=caller):
            if decision.decision == "deny":
                who = "an earlier decision in this session" if caller is None else caller.label
                why = f"{who} denied it" + (f": {decision.reason}" if decision.reason else "")
                raise not_approved(approval.tool, approval.action, why)
            return structs.replace(decision, by=UNSET if caller is None else caller.label)
        case Unanswered(reason=reason):
            raise not_approved(approval.tool, approval.action, reason)
        case Withdrawn(error=Exception() as error):
            raise error
    return None
