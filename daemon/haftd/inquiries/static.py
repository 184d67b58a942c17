"""Backend `static`: answers from the configuration, never secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog

from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import Answer

from .backend import Backend, Candidate, Declined
from .kind import Message
from .pending_inquiry import PendingInquiry

log = structlog.get_logger("haftd.inquiries")


class StaticBackend(Backend):
    """`answers` by tool, then by question id."""

    name = "static"
    takes_secrets = False

    def __init__(self, answers: Mapping[str, Mapping[str, Answer]]) -> None:
        self._answers = answers

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        tool, asked = pending.kind.tool, pending.kind.make_message()
        answers = self._answers.get(tool, {})
        if not isinstance(asked, Inquiry) or asked.question.id not in answers:
            raise Declined("the configuration has no answer to it")

        async def look_up(message: Message) -> object:
            if isinstance(message.refused, str):
                log.warning(
                    "wrong answer", tool=tool, question=asked.question.id, why=message.refused
                )
                raise Declined("the answer in the configuration is not valid")
            return {"answer": answers[asked.question.id]}

        yield Candidate(look_up, {"by": "static"})
