"""A client's question, answered by the reply to its call; never remembered."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from haft_protocol.approvals import Remember
from haft_protocol.errors import shown, shutting_down, unanswered
from haft_protocol.inquiries import ASK, Inquiry, Target, read_remembered_answer, schema
from haft_protocol.questions import Question, Secret
from haftd.caller import Caller

from .kind import Answered, InquiryKind, Timeouts, Unanswered, Withdrawn


class ClientQuestion(InquiryKind, frozen=True, kw_only=True, eq=False):
    """Question of the client that is the caller in `context`."""

    method = ASK
    capability = "inquiry"
    permission = "questions"

    tool: str = "client"
    order: tuple[float, ...] = (2,)
    question: Question
    target: Target
    timeout_s: float | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {"question": self.question.id}

    @property
    def _is_secret(self) -> bool:
        return isinstance(self.question.answer_type, Secret)

    def make_message(self) -> Inquiry:
        return Inquiry(
            session=self.session,
            inquiry_id=self.id,
            question=self.question,
            schema=schema(self.id, self.question.answer_type),
            target="user" if self._is_secret else self.target,
        )

    def read(self, reply: object) -> tuple[Any, Remember | UnsetType]:
        return read_remembered_answer(self.make_message(), reply)

    def choose_timeout(self, timeouts: Timeouts) -> tuple[float, str]:
        seconds, setting = self.timeout_s, "`timeout_s`"
        if seconds is None:
            seconds, setting = timeouts.question_s, "`question_timeout_s` of `[daemon]`"
        return seconds, f"nobody answered within {seconds:g} s ({setting})"

    def admits(self, caller: Caller) -> bool:
        return caller is not self.context.caller and super().admits(caller)

    def find_known_end(self) -> Unanswered | None:
        if self._is_secret and self.target not in ("caller", "user"):
            return Unanswered(
                "only a person may be asked for a secret: the `target` must be `user`"
            )
        return None

    def make_audit_record(self, answer: Answered) -> tuple[str, dict[str, object]]:
        return "answer", {
            **answer.source,
            "session": self.session,
            "question": self.question.id,
            "asked_by": self.context.caller.label,
            **({"withheld": True} if self._is_secret else {"answer": answer.value}),
        }

    def end_on_close(self, *, stopping: bool) -> Withdrawn:
        why = f"session {shown(self.session)} was closed"
        return Withdrawn(shutting_down() if stopping else unanswered(self.question.id, why))
