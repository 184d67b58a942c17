"""Questions of a running tool, which continues with the answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Final

import trio
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Remember
from haft_protocol.errors import shown
from haft_protocol.inquiries import ASK, Inquiry, Target, inquiry_id, read_remembered_answer, schema
from haft_protocol.questions import InvalidAnswer, Question, Secret, check_answer
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import Running, State
from haftd.tools.definitions.definition import QuestionPolicy

from .kind import Answered, End, InquiryContext, InquiryKind, Timeouts, Unanswered, Withdrawn
from .pending_inquiry import PendingInquiry
from .router import InquiryRouter

_NO_POLICY = QuestionPolicy()
_NO_QUESTIONS: deque[PendingInquiry] = deque()
"""Queue before the first question: an empty deque takes 0.7 KiB."""


class InquiryCancelled(Exception):
    """The question was withdrawn, as by the end of its handle."""


class NoAnswer(Exception):
    """Unanswered; the argument is the reason."""


class ToolQuestion(InquiryKind, frozen=True, kw_only=True, eq=False):
    """Question of the tool that runs as `handle`, which is `waiting` while the question is open."""

    method = ASK
    capability = "inquiry"
    permission = "questions"

    handle: Handle
    question: Question
    for_a_person: bool = False
    """No assistant may answer, regardless of the definition."""

    @property
    def is_private(self) -> bool:
        """True if only the asker may see the answer."""
        return isinstance(self.question.answer_type, Secret)

    @property
    def labels(self) -> dict[str, str]:
        return {"handle": self.handle.id, "question": self.question.id}

    @property
    def _policy(self) -> QuestionPolicy:
        return self.context.questions.get(self.question.id, _NO_POLICY)

    def make_message(self) -> Inquiry:
        context = self.context.context
        return Inquiry(
            session=self.session,
            handle=self.handle.id,
            call_id=choose_call_id(self.handle, self.context),
            inquiry_id=self.id,
            question=self.question,
            schema=schema(self.id, self.question.answer_type),
            target=self._choose_target(),
            context=UNSET if context is None else context,
        )

    def _choose_target(self) -> Target:
        if self.for_a_person:
            return "user"
        if self._policy.target is not None:
            return self._policy.target
        return "user" if isinstance(self.question.answer_type, Secret) else "caller"

    def read(self, reply: object) -> tuple[Any, Remember | UnsetType]:
        return read_remembered_answer(self.make_message(), reply)

    def admits(self, caller: Caller) -> bool:
        # A nested assistant is a client of its own session: its questions must not return to it.
        own = caller.confinement
        is_asker = own is not None and (own.session, own.handle) == (self.session, self.handle.id)
        return not is_asker and super().admits(caller)

    def choose_timeout(self, timeouts: Timeouts) -> tuple[float, str]:
        question = self.question.id
        seconds, setting = self._policy.timeout_s, f"`questions.{question}.timeout_s` of the tool"
        if seconds is None:
            seconds, setting = timeouts.question_s, "`question_timeout_s` of `[daemon]`"
        why = f"nobody answered question {shown(question)} within {seconds:g} s ({setting})"
        return seconds, why

    def find_known_end(self) -> Answered | Unanswered | None:
        is_secret = isinstance(self.question.answer_type, Secret)
        if self._policy.answer is UNSET:
            if is_secret and self._choose_target() != "user":
                return Unanswered(
                    f"question {shown(self.question.id)} asks for a secret, which only a person "
                    "answers, but the tool's definition sends it to the assistant"
                )
            return None
        if is_secret:
            return Unanswered(
                f"question {shown(self.question.id)} asks for a secret, which a definition must not "
                "contain; remove its `answer`"
            )
        try:
            return Answered(check_answer(self.question, self._policy.answer), {"by": "definition"})
        except InvalidAnswer as wrong:
            return Unanswered(f"the answer in the tool's definition is not valid: {wrong}")

    @property
    def memory_key(self) -> tuple[Hashable, Hashable] | None:
        bound_to = self.context.bound_to
        if bound_to is None or self.is_private or not self.make_message().can_be_remembered:
            return None
        return ("answer", self.tool, self.question.id), bound_to

    def recall(self, value: Any) -> Any:
        return check_answer(self.question, value)

    def make_audit_record(self, answer: Answered) -> tuple[str, dict[str, object]]:
        remember = {} if answer.remember is UNSET else {"remember": answer.remember}
        return "answer", {
            **answer.source,
            "session": self.session,
            "handle": self.handle.id,
            "generation": self.handle.generation,
            "question": self.question.id,
            **({"withheld": True} if self.is_private else {"answer": answer.value}),
            **remember,
        }

    def on_open(self) -> None:
        self.handle.ask(self.question, trio.current_time(), self.id)

    def on_claim(self) -> None:
        self.handle.wake()

    def follow(self, end: End) -> None:
        if self.handle.state is State.WAITING:
            now = trio.current_time()
            if isinstance(end, Answered):
                self.handle.answer(now)
            else:
                self.handle.withdraw(now)


def choose_call_id(handle: Handle, context: InquiryContext) -> str:
    return context.call_id or f"{handle.id}.{handle.generation}"


class InquiryQueue:
    """Questions of `handle`, one open at a time."""

    __slots__ = ("_count", "_queue", "_router", "context", "handle", "id")

    def __init__(
        self,
        handle: Handle,
        router: InquiryRouter | None = None,
        context: InquiryContext | None = None,
    ) -> None:
        self.handle = handle
        self.context = context or InquiryContext(caller=Caller("unix"))
        self._router = router or InquiryRouter()
        self._queue = _NO_QUESTIONS
        self._count = 0
        self.id: Final = inquiry_id(handle.tool, choose_call_id(handle, self.context))
        """Id for a client's answer."""

    def next_number(self) -> int:
        self._count += 1
        return self._count

    @property
    def current(self) -> PendingInquiry | None:
        """The open question; None unless the handle is `waiting`."""
        return self._queue[0] if self.handle.state is State.WAITING else None

    @property
    def inquiry(self) -> Inquiry | None:
        message = None if self.current is None else self.current.kind.make_message()
        return message if isinstance(message, Inquiry) else None

    @property
    def needs_a_person(self) -> bool:
        return self.inquiry is not None and self.inquiry.needs_a_person

    @property
    def is_private(self) -> bool:
        kind = None if self.current is None else self.current.kind
        return isinstance(kind, ToolQuestion) and kind.is_private

    def make_question(
        self, question: Question, kind: type[ToolQuestion] = ToolQuestion
    ) -> ToolQuestion:
        """Return a question of the handle, not yet asked."""
        handle = self.handle
        return kind(
            context=self.context,
            session=handle.session,
            id=self.id,
            tool=handle.tool,
            may=handle.settings.may,
            order=(0, handle.created_at),
            handle=handle,
            question=question,
        )

    def put(self, kind: ToolQuestion) -> PendingInquiry:
        """Queue a question, and open it if it is the first. The caller awaits its end (`wait`) or
        settles it; on a handle that has ended it is withdrawn at once."""
        if self.handle.has_ended:
            pending = PendingInquiry(kind, lambda pending: None)
            pending.settle(Withdrawn())
            return pending
        pending = self._router.put(kind, is_queued=True, on_end=self._remove)
        if pending.end is None:
            if self._queue is _NO_QUESTIONS:
                self._queue = deque()
            self._queue.append(pending)
            self.open_next()
        return pending

    async def wait(self, pending: PendingInquiry) -> Any:
        """Return the answer. Raises `InquiryCancelled` and `NoAnswer`; a cancellation withdraws the
        question."""
        match await self._router.resolve(pending):
            case Answered(value=value):
                return value
            case Unanswered(reason=reason):
                raise NoAnswer(reason)
            case Withdrawn():
                raise InquiryCancelled

    async def ask(self, kind: ToolQuestion) -> Any:
        """Queue a question and return its answer, like `wait`."""
        return await self.wait(self.put(kind))

    def open_next(self) -> None:
        if self._queue and isinstance(self.handle.phase, Running):
            self._queue[0].open()

    def withdraw_all(self) -> None:
        for pending in list(self._queue):
            pending.settle(Withdrawn())

    def _remove(self, pending: PendingInquiry) -> None:
        if pending in self._queue:
            self._queue.remove(pending)
            self.open_next()
