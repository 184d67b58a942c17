"""The desk: takes each question of a tool to whoever answers it.

Rules: a fixed answer of the definition needs nobody. A question goes to the backends in the
configured order until one answers; where all decline it stays open until its bound, for
`inquiries/answer` and `apply`, and for a client that comes later. A secret goes to a person: not to an assistant, not to a
backend that is no place for it. What no backend can mend fails the inquiry, and with it the tool.
An answer that is to be remembered is given again to the same program without asking, if it still fits.
Every answer is recorded, a secret or private one without what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import structlog
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Remember
from haft_protocol.errors import shown
from haft_protocol.inquiries import Inquiry, Target, inquiry_id, schema
from haft_protocol.questions import InvalidAnswer, Question, Secret, check_answer
from haftd.core.handles import Handle
from haftd.core.remembered import Remembered

from .asking import Asked, NoAnswer
from .base import Answered, Backend, InquiryFailed, Origin, Way

__all__ = ["Desk", "Inquirer"]

log = structlog.get_logger("haftd.inquiry")


class Desk:
    """Finds answers by `backends`, in their order. `record` writes who answered what into the
    audit log; `remembered` holds those that count for longer. A question is asked for `timeout_s`."""

    def __init__(
        self,
        backends: Sequence[Backend],
        record: Callable[..., None],
        remembered: Remembered | None = None,
        *,
        timeout_s: float = inf,
    ) -> None:
        self.timeout_s = timeout_s
        self._backends = tuple(backends)
        self._replaced = trio.Event()
        self._record = record
        self.remembered = Remembered() if remembered is None else remembered

    def replace(self, backends: Sequence[Backend]) -> None:
        """Ask these backends from now on, also what all others have declined. An answer that is being
        waited for still counts."""
        self._backends = tuple(backends)
        self._replaced.set()
        self._replaced = trio.Event()

    def inquirer(self, handle: Handle, origin: Origin) -> Inquirer:
        """Who asks for one use of a tool."""
        inquirer = Inquirer(self, handle, origin)
        handle.inquiry_id = inquirer.id
        return inquirer

    async def find(self, way: Way) -> Answered:
        """The first answer there is. Raises `InquiryFailed`; waits while nobody answers."""
        backends = hopes = self._backends
        while True:
            for backend in hopes:
                found = await self._try(backend, way)
                if found is not None:
                    return found
            if way.claim is not None:
                way.claim(False)
            hopes = await self._changed(way, backends)
            backends = self._backends
            if way.claim is not None:
                way.claim(True)
            if way.renew is not None:
                way.inquiry = way.renew()

    async def _try(self, backend: Backend, way: Way) -> Answered | None:
        question = way.inquiry.question
        if way.inquiry.is_secret and not backend.takes_secrets:
            return None
        outcome = await backend.ask(way)
        why = ""
        if isinstance(outcome, Answered):
            try:
                check_answer(question, outcome.answer)
            except InvalidAnswer:
                why = "its answer does not fit"
            else:
                return outcome
        else:
            why = outcome.why
        log.info(
            "declined",
            inquiry=way.inquiry.inquiry_id,
            tool=way.tool,
            backend=backend.name,
            question=question.id,
            why=why,
        )
        return None

    async def _changed(self, way: Way, declined: tuple[Backend, ...]) -> tuple[Backend, ...]:
        """Wait until one that declined may do otherwise, or others have replaced them."""
        if self._backends is not declined:
            return self._backends
        changed: list[Backend] = []
        async with trio.open_nursery() as nursery:

            async def watch(backend: Backend) -> None:
                await backend.change(way)
                changed.append(backend)
                nursery.cancel_scope.cancel()

            for backend in declined:
                nursery.start_soon(watch, backend)
            await self._replaced.wait()
            nursery.cancel_scope.cancel()
        if self._backends is not declined:
            return self._backends
        return tuple(backend for backend in declined if backend in changed)

    def record(
        self, handle: Handle, question: Question, answer: Any, *, private: bool, **who: object
    ) -> None:
        """Write down who answered, and what, if that is anybody's business."""
        private = private or isinstance(question.answer_type, Secret)
        said: dict[str, object] = {"withheld": True} if private else {"answer": answer}
        self._record(
            **who,
            session=handle.session,
            handle=handle.id,
            generation=handle.generation,
            question=question.id,
            **said,
        )

    def record_of_session(self, session: str, question: str, answer: Any, **who: object) -> None:
        """The same for what no tool has asked."""
        self._record(**who, session=session, question=question, answer=answer)


class Inquirer:
    """Asks for one use of a tool; see `asking.Router`."""

    __slots__ = ("_call_id", "_desk", "_handle", "_origin", "id")

    def __init__(self, desk: Desk, handle: Handle, origin: Origin) -> None:
        self._desk = desk
        self._handle = handle
        self._origin = origin
        self._call_id = origin.call_id or f"{handle.id}.{handle.generation}"
        self.id = inquiry_id(handle.tool, self._call_id)

    def known(self, question: Question) -> tuple[Any] | None:
        """See `asking.Router`: what the definition answers itself, and what a person has said."""
        policy = self._origin.questions.get(question.id)
        if policy is None or policy.answer is UNSET:
            return self._remembered(question)
        if isinstance(question.answer_type, Secret):
            raise NoAnswer(
                f"question {shown(question.id)} asks for a secret, which is no matter for a "
                "definition; take its `answer` out"
            )
        try:
            answer = check_answer(question, policy.answer)
        except InvalidAnswer as wrong:
            raise NoAnswer(f"the answer in the tool's definition does not fit: {wrong}") from None
        self._desk.record(self._handle, question, answer, private=False, by="definition")
        return (answer,)

    def _remembered(self, question: Question) -> tuple[Any] | None:
        """The answer that was given before and is to be given again; one that fits no longer is
        forgotten."""
        handle, bound_to = self._handle, self._origin.bound_to
        if bound_to is None or not self._inquiry(question).can_be_remembered:
            return None
        about = _about(handle, question)
        word = self._desk.remembered.find(handle.session, about, bound_to)
        if word is None:
            return None
        try:
            answer = check_answer(question, word.said)
        except InvalidAnswer:
            self._desk.remembered.drop(handle.session, about)
            return None
        self._desk.record(handle, question, answer, private=False, by="remembered")
        return (answer,)

    def remember(self, asked: Asked, answer: Any, until: Remember | UnsetType) -> None:
        """See `asking.Router`."""
        handle, bound_to = self._handle, self._origin.bound_to
        if isinstance(until, UnsetType) or bound_to is None or asked.private:
            return
        if self.describe(asked).can_be_remembered:
            about = _about(handle, asked.question)
            self._desk.remembered.keep(handle.session, about, answer, until, bound_to)

    def bound(self, question: Question) -> tuple[float, str]:
        """See `asking.Router`."""
        policy = self._origin.questions.get(question.id)
        if policy is None or policy.timeout_s is None:
            return self._desk.timeout_s, "`question_timeout_s` of `[daemon]`"
        return policy.timeout_s, f"`questions.{question.id}.timeout_s` of the tool"

    async def route(self, asked: Asked) -> None:
        """See `asking.Router`."""
        inquiry = self.describe(asked)
        if inquiry.is_secret and not inquiry.is_for_a_person:
            asked.give_up(
                f"question {shown(asked.question.id)} asks for a secret, which only a person "
                "answers, but the tool's definition sends it to the assistant"
            )
            return
        way = Way(inquiry, self._origin, self._handle.tool, claim=lambda c: asked.claim(claimed=c))
        try:
            found = await self._desk.find(way)
        except InquiryFailed as failed:
            asked.give_up(str(failed))
            return
        if asked.give(found.answer):
            self.remember(asked, found.answer, found.remember)
            lasting = {} if isinstance(found.remember, UnsetType) else {"remember": found.remember}
            self._desk.record(
                self._handle,
                asked.question,
                found.answer,
                private=asked.private,
                **found.who,
                **lasting,
            )

    def describe(self, asked: Asked) -> Inquiry:
        """See `asking.Router`."""
        return self._inquiry(asked.question)

    def _inquiry(self, question: Question) -> Inquiry:
        handle = self._handle
        context = self._origin.context
        return Inquiry(
            session=handle.session,
            handle=handle.id,
            call_id=self._call_id,
            inquiry_id=self.id,
            question=question,
            schema=schema(self.id, question.answer_type),
            target=self._target(question),
            context=UNSET if context is None else context,
        )

    def _target(self, question: Question) -> Target:
        policy = self._origin.questions.get(question.id)
        if policy is not None and policy.target is not None:
            return policy.target
        return "user" if isinstance(question.answer_type, Secret) else "caller"


def _about(handle: Handle, question: Question) -> tuple[str, str, str]:
    """What an answer can be remembered under."""
    return "answer", handle.tool, question.id
