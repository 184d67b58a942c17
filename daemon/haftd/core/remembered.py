"""What was said once and counts for longer: words of a person, by session and by what they are about.

Rules: pure. A word is for the session, or until its turn ends; one for a turn that nobody has begun
is kept nowhere, as nobody would end it. It holds for exactly what it was bound to when it was said.
Of very many the oldest is forgotten: then it is asked again. Section 6, `remember`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from haft_protocol.approvals import Remember

__all__ = ["Kept", "Remembered"]

_MOST = 4_096


class Kept(msgspec.Struct, frozen=True):
    """What was said, and what it is bound to."""

    said: Any
    bound_to: Hashable
    until: Remember

    def __repr__(self) -> str:
        return f"Kept({self.until}, …)"


class Remembered:
    """The words of all sessions. `is_in_turn` says whether somebody will end the session's turn."""

    __slots__ = ("_is_in_turn", "_words")

    def __init__(self, is_in_turn: Callable[[str], bool] = lambda session: False) -> None:
        self._is_in_turn = is_in_turn
        self._words: dict[tuple[str, Hashable], Kept] = {}

    def keep(
        self, session: str, about: Hashable, said: Any, until: Remember, bound_to: Hashable = None
    ) -> bool:
        """Remember it in place of what was said before; whether it is remembered."""
        if until == "turn" and not self._is_in_turn(session):
            return False
        self._words.pop((session, about), None)
        self._words[session, about] = Kept(said, bound_to, until)
        if len(self._words) > _MOST:
            del self._words[next(iter(self._words))]
        return True

    def find(self, session: str, about: Hashable, bound_to: Hashable = None) -> Kept | None:
        """What was said about it, if it is still bound to the same."""
        word = self._words.get((session, about))
        return word if word is not None and word.bound_to == bound_to else None

    def drop(self, session: str, about: Hashable) -> None:
        """Forget what was said about it."""
        self._words.pop((session, about), None)

    def end_turn(self, session: str) -> None:
        """Its turn is over: the words for it are forgotten."""
        self._keep_if(lambda key, word: key[0] != session or word.until != "turn")

    def close(self, session: str) -> None:
        """The session is closed: so are its words."""
        self._keep_if(lambda key, word: key[0] != session)

    def _keep_if(self, holds: Callable[[tuple[str, Hashable], Kept], bool]) -> None:
        self._words = {key: word for key, word in self._words.items() if holds(key, word)}
