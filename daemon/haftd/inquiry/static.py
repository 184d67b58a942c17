"""Answers from the configuration, by tool and question.

Rules: what does not fit the question is no answer, and the log says so. Never a secret: a
configuration is no place to keep one.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from haft_protocol.questions import Answer, InvalidAnswer, check_answer

from .base import Answered, Backend, Declined, Outcome, Way

__all__ = ["StaticBackend"]

log = structlog.get_logger("haftd.inquiry")


class StaticBackend(Backend):
    """The backend `static`: `answers` by tool, then by question id."""

    name = "static"
    takes_secrets = False

    def __init__(self, answers: Mapping[str, Mapping[str, Answer]]) -> None:
        self._answers = answers

    async def ask(self, way: Way) -> Outcome:
        """See `base`."""
        question = way.inquiry.question
        answers = self._answers.get(way.tool, {})
        if question.id not in answers:
            return Declined("there is no answer to it in the configuration")
        try:
            answer = check_answer(question, answers[question.id])
        except InvalidAnswer as wrong:
            log.warning("wrong answer", tool=way.tool, question=question.id, why=str(wrong))
            return Declined("the answer in the configuration does not fit")
        return Answered(answer, {"by": "static"})
