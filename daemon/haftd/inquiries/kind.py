"""An inquiry's kind and ends. An answer is in no `repr`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Approval, Remember
from haft_protocol.inquiries import Inquiry
from haftd.caller import Caller, Permission
from haftd.core.handles import Handle
from haftd.redaction import Redacted
from haftd.tools.definitions.definition import QuestionPolicy

Message = Inquiry | Approval
"""Params of the request to a client, and entry of `inquiries/list` or `approvals/list`."""


class InquiryContext(Redacted, frozen=True, kw_only=True):
    """Call of an inquiry."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("context",)

    caller: Caller
    call_id: str | None = None
    context: Any = None
    questions: Mapping[str, QuestionPolicy] = msgspec.field(default_factory=dict)
    bound_to: Hashable = None
    """Definition of the program that alone gets a remembered answer. With None, answers to questions
    are not remembered, and approvals are remembered for the tool's name."""


class Answered(Redacted, frozen=True):
    """Checked answer."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("value", "caller")

    value: Any
    source: Mapping[str, object] = msgspec.field(default_factory=dict)
    """Author, for the audit log: `by`, and a client's identity or a model's name."""
    caller: Caller | None = None
    remember: Remember | UnsetType = UNSET


class Unanswered(msgspec.Struct, frozen=True):
    """The deadline has passed, or the inquiry has failed."""

    reason: str


class Withdrawn(msgspec.Struct, frozen=True):
    """The answer is no longer needed."""

    error: Exception | None = None
    """Raised by the waiting call."""


End = Answered | Unanswered | Withdrawn


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds until an open inquiry expires; infinite without a deadline."""

    question_s: float = float("inf")
    approval_s: float = float("inf")


class InquiryKind(Redacted, frozen=True, kw_only=True, eq=False):
    """Message, readers, form of an answer, and consequences."""

    method: ClassVar[str]
    """Request to a client."""
    capability: ClassVar[Literal["inquiry", "approval"]]
    """Capability that a client needs."""
    permission: ClassVar[Permission]
    """Permission with which a confined client may decide for a user."""
    clients_only: ClassVar[bool] = False
    """Only connected clients are asked."""

    context: InquiryContext
    session: str
    """Session of the clients."""
    id: str
    """Id for a client's answer."""
    tool: str
    """Tool's name, for logs and models."""
    may: frozenset[str] = frozenset()
    """Permissions of the handles, which a confined client needs."""
    depends_on: tuple[Handle, ...] = ()
    """The inquiry is withdrawn when all of these have stopped; never if there are none."""
    order: tuple[float, ...] = ()
    """Sort key among open inquiries."""

    @property
    def labels(self) -> dict[str, str]:
        """Fields for log records, such as `handle`."""
        return {}

    @property
    def is_ready(self) -> bool:
        """True if the message is complete; `prepare` completes an incomplete message."""
        return True

    async def prepare(self) -> InquiryKind:
        """Return a kind with a complete message."""
        return self

    @abstractmethod
    def make_message(self) -> Message: ...

    @abstractmethod
    def read(self, reply: object) -> tuple[Any, Remember | UnsetType]:
        """Return the answer in a reply and its `remember`. Raises `InvalidAnswer` or `RpcError`."""

    @abstractmethod
    def choose_timeout(self, timeouts: Timeouts) -> tuple[float, str]:
        """Return the seconds until the deadline, and the reason to report then."""

    def explain_failure(self, reason: str) -> str:
        """Return the reason to report for a failed backend."""
        return reason

    def admits(self, caller: Caller) -> bool:
        """True if this client may be asked."""
        message = self.make_message()
        needs_a_person = not isinstance(message, Inquiry) or message.needs_a_person
        may_answer = caller.may(self.permission) or not needs_a_person
        return may_answer and caller.may_reach(self.may)

    def is_visible_to(self, caller: Caller) -> bool:
        """True if this client may list the inquiry."""
        return caller.may_use(self.session) and caller.may_reach(self.may)

    def find_known_end(self) -> Answered | Unanswered | None:
        """Return an end that needs no question; None if a backend must be asked."""
        return None

    @property
    def memory_key(self) -> tuple[Hashable, Hashable] | None:
        """Key of the answer in `AnswerCache`, and its `bound_to`; None for an answer that is not
        remembered."""
        return None

    def recall(self, value: Any) -> Any:
        """Return a remembered answer; raises `InvalidAnswer` if it no longer fits."""
        return value

    @abstractmethod
    def make_audit_record(self, answer: Answered) -> tuple[str, dict[str, object]] | None:
        """Return the audit event and its fields; None if the decision has been recorded before."""

    def on_open(self) -> None:
        """Change the handle, as the inquiry is open from now on."""

    def on_claim(self) -> None:
        """Wake the calls that wait for the handle: a candidate is asked, or all have declined."""

    def follow(self, end: End) -> Any:
        """Apply the end synchronously; the result is kept with the end."""
        return None

    def end_on_close(self, *, stopping: bool) -> Withdrawn | None:
        """Return the end at the close of the session, or with `stopping` at the stop of the daemon;
        None if the end of the handles ends the inquiry."""
        return None
