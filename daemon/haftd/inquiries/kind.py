"""The values of an inquiry: its kind and its ends.

Rules: a kind is frozen. It asks no client itself and knows neither router nor backends; an answer is in no
`repr`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Approval, Remember
from haft_protocol.inquiries import Inquiry
from haftd.caller import Caller, Permission
from haftd.core.handles import Handle
from haftd.tools.definition import QuestionPolicy

Message = Inquiry | Approval
"""The params of the request that a client gets, and one entry of `inquiries/list` or `approvals/list`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InquiryContext:
    """The call that an inquiry belongs to. `bound_to` is the program that runs: a remembered answer is given to
    nothing else of that name; None: to nothing."""

    caller: Caller
    call_id: str | None = None
    context: Any = field(default=None, repr=False)
    questions: Mapping[str, QuestionPolicy] = field(default_factory=dict)
    bound_to: Hashable = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A checked answer. `source` and `caller` name its author, `remember` how long it counts."""

    value: Any = field(repr=False)
    source: Mapping[str, object] = field(default_factory=dict)
    caller: Caller | None = field(default=None, repr=False)
    remember: Remember | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There will be no answer: the deadline has passed, or the inquiry has failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The answer is not wanted any more; `error` is for the call that waits for it."""

    error: Exception | None = None


End = Answered | Unanswered | Withdrawn


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds after which an inquiry expires, by setting of `[daemon]`."""

    question_s: float = float("inf")
    approval_s: float = float("inf")


@dataclass(frozen=True, kw_only=True, eq=False)
class InquiryKind(ABC):
    """What is asked, of whom, what an answer must look like, and what follows."""

    method: ClassVar[str]
    """The request that a client gets."""
    capability: ClassVar[Literal["inquiry", "approval"]]
    """The capability of a client that gets it."""
    permission: ClassVar[Permission]
    """What a confined client needs, to speak for a person."""
    clients_only: ClassVar[bool] = False
    """Whether no backend but connected clients is asked."""

    context: InquiryContext
    session: str
    """The session whose clients are asked."""
    id: str
    """The id under which a client answers."""
    tool: str
    """The tool's name, for logs and models."""
    may: frozenset[str] = frozenset()
    """The permissions of the handles that it is about: a confined client needs all of them."""
    depends_on: tuple[Handle, ...] = ()
    """The handles of which one must run: else nothing is left to decide."""
    order: tuple[float, ...] = ()
    """The place among what is open; equal ones stand in the order of their opening."""

    @property
    def labels(self) -> dict[str, str]:
        """More fields for the log."""
        return {}

    @property
    def is_ready(self) -> bool:
        """Whether it can be shown; else `prepared` makes a kind that can be."""
        return True

    async def prepared(self) -> InquiryKind:
        """Return the kind as it is shown."""
        return self

    @abstractmethod
    def message(self) -> Message:
        """Return what is asked, as of now."""

    @abstractmethod
    def read(self, reply: object) -> tuple[Any, Remember | UnsetType]:
        """Return the answer in a reply, and how long it counts. Raises `InvalidAnswer`, or `RpcError`."""

    @abstractmethod
    def timeout(self, timeouts: Timeouts) -> tuple[float, str]:
        """Return the seconds that it stays open, and the reason for which it has then no answer."""

    def failure(self, reason: str) -> str:
        """Return why there is no answer where a backend has failed for good."""
        return reason

    def admits(self, caller: Caller) -> bool:
        """Say whether this client may be asked."""
        message = self.message()
        needs_a_person = not isinstance(message, Inquiry) or message.needs_a_person
        may_answer = caller.may(self.permission) or not needs_a_person
        return may_answer and caller.may_reach(self.may)

    def known(self) -> Answered | Unanswered | None:
        """Return the end that is known without asking."""
        return None

    @property
    def memory_key(self) -> tuple[Hashable, Hashable] | None:
        """The subject of an answer that can be remembered, and the program that it is bound to."""
        return None

    def recall(self, value: Any) -> Any:
        """Return a remembered answer; raises `InvalidAnswer` where it does not fit any more."""
        return value

    @abstractmethod
    def audit_record(self, answer: Answered) -> tuple[str, dict[str, object]] | None:
        """Return the event of the audit log and its fields; None for none."""

    def opened(self) -> None:  # noqa: B027
        """Take note that it is asked now."""

    def changed(self) -> None:  # noqa: B027
        """Take note that a candidate was found, or that all have declined."""

    def follow(self, end: End) -> Any:
        """Do at once what follows from its end, if it was opened; the result is kept with the end."""
        return None

    def end_on_close(self, *, stopping: bool) -> Withdrawn | None:
        """Return its end when the session is closed or the daemon stops; None where its handle ends it."""
        return None
