"""Approvals: requests to a client and its decisions (docs/protocol.md, "Approvals").

Pushed (`approval/ask`) and pulled (`approvals/list`) approvals have the same fields. Arguments are
in no `repr`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .params import Params, Root, SessionOrAll
from .questions import InvalidAnswer

__all__ = [
    "ASK_APPROVAL",
    "Approval",
    "ApprovalsDecideParams",
    "ApprovalsListParams",
    "ApprovalsListResult",
    "Decided",
    "Decision",
    "PolicedAction",
    "Reason",
    "Remember",
    "read_decision",
]

ASK_APPROVAL = "approval/ask"
"""Request to clients with the capability `approval`."""

PolicedAction = Literal["spawn", "call", "fetch", "apply", "abort", "result"]
Decision = Literal["allow", "deny", "skip", "edit"]
Remember = Literal["turn", "session"]
Reason = Annotated[str, Meta(max_length=1024)]


class Approval(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An action that awaits a decision. `rendered` is for display; mode `edit` permits changed
    arguments. `root` is the folder in which the tool runs, `env` names the variables that the call sets
    otherwise than the daemon has them. `refused`: why the client's previous decision was invalid. The action `result`
    releases a tool's result; its argument is `text`, beside `failed`, `bytes` and `omitted`."""

    approval_id: str
    session: str
    tool: str
    action: PolicedAction
    id: str
    arguments: dict[str, Any]
    rendered: str
    mode: Literal["ask", "edit"]
    root: str | UnsetType = UNSET
    env: tuple[str, ...] | UnsetType = UNSET
    refused: str | UnsetType = UNSET
    failed: bool | UnsetType = UNSET
    bytes: int | UnsetType = UNSET
    omitted: int | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"Approval({self.approval_id}, {self.tool}, {self.action}, …)"


class Decided(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision. With `edit`, `arguments` replace all arguments."""

    decision: Decision
    arguments: dict[str, Any] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"Decided({self.decision}, …)"

    def check(self) -> Decided:
        """Return the decision; raise `InvalidAnswer` where fields contradict each other.

        >>> Decided("allow", remember="session").check().remember
        'session'
        """
        has_arguments = self.arguments is not UNSET
        if has_arguments != (self.decision == "edit"):
            raise InvalidAnswer("only the decision `edit` has `arguments`")
        if self.decision == "edit" and self.remember is not UNSET:
            raise InvalidAnswer("`edit` applies to this call only and cannot be remembered")
        return self


def read_decision(reply: object) -> Decided:
    try:
        return msgspec.convert(reply, Decided).check()
    except msgspec.ValidationError as error:
        raise InvalidAnswer(
            'a decision is an object {"decision": "allow" | "deny" | "skip" | "edit", "arguments"?, '
            f'"remember"?, "reason"?}}: {error}'
        ) from None


class ApprovalsListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List the actions that await approval in one session, or in all with `*`."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class ApprovalsListResult(msgspec.Struct, frozen=True):
    """The open approvals, as in `approval/ask`."""

    approvals: tuple[Approval, ...]


class ApprovalsDecideParams(Params, frozen=True, kw_only=True):
    """Decide an action that awaits approval. With `edit` the action proceeds with these `arguments`."""

    approval_id: Annotated[str, Meta(max_length=64)]
    decision: Decision
    arguments: dict[str, Any] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"ApprovalsDecideParams(approval_id={self.approval_id!r}, {self.decision}, …)"
