"""Remembered answers, keyed by session and subject."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from haft_protocol.approvals import Remember

_MAX_ANSWERS = 4_096
"""Answers of all sessions together, so that memory has a bound; the oldest is forgotten."""


class CachedAnswer(msgspec.Struct, frozen=True):
    value: Any
    bound_to: Hashable
    until: Remember

    def __repr__(self) -> str:
        return f"CachedAnswer({self.until}, …)"


class AnswerCache:
    """Answers of all sessions; `is_in_turn` returns True if a client will end the session's turn."""

    __slots__ = ("_answers", "_is_in_turn")

    def __init__(self, is_in_turn: Callable[[str], bool] = lambda session: False) -> None:
        self._is_in_turn = is_in_turn
        self._answers: dict[tuple[str, Hashable], CachedAnswer] = {}

    def keep(
        self,
        session: str,
        subject: Hashable,
        value: Any,
        until: Remember,
        bound_to: Hashable = None,
    ) -> bool:
        """Replace the answer. Return False, with the old answer kept, if it is for the turn and no
        client has begun one: nothing would end it."""
        if until == "turn" and not self._is_in_turn(session):
            return False
        self._answers.pop((session, subject), None)
        self._answers[session, subject] = CachedAnswer(value, bound_to, until)
        if len(self._answers) > _MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        return True

    def find(
        self, session: str, subject: Hashable, bound_to: Hashable = None
    ) -> CachedAnswer | None:
        """Return the answer; None without one, and for one that is bound to another program."""
        answer = self._answers.get((session, subject))
        return answer if answer is not None and answer.bound_to == bound_to else None

    def drop(self, session: str, subject: Hashable) -> None:
        self._answers.pop((session, subject), None)

    def end_turn(self, session: str) -> None:
        self._keep_if(lambda key, answer: key[0] != session or answer.until != "turn")

    def close(self, session: str) -> None:
        self._keep_if(lambda key, answer: key[0] != session)

    def _keep_if(self, holds: Callable[[tuple[str, Hashable], CachedAnswer], bool]) -> None:
        self._answers = {key: answer for key, answer in self._answers.items() if holds(key, answer)}
