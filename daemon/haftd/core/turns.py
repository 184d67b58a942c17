"""The current turn of each session's conversation.

Rules: pure. Turns are counted from 1, and a session is in its first from its start. Names are bounded: of the
sessions that have counted, the longest unused begin anew. Section 7.
"""

from __future__ import annotations

_MAX_SESSIONS = 4_096


class Turns:
    """The turns of all sessions."""

    __slots__ = ("_begun", "_ended")

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        self._ended: set[str] = set()

    def begin(self, session: str) -> int:
        """Begin a turn and return its number: the next one, or 1 for a session without one."""
        begun = self._begun.pop(session, 0) + 1
        return self._keep(session, begun)

    def end(self, session: str) -> int:
        """End the current turn and return its number; a session's first turn needs no `begin`."""
        begun = self._begun.pop(session, 0)
        if session in self._ended or not begun:
            begun += 1
        self._keep(session, begun)
        self._ended.add(session)
        return begun

    def is_begun(self, session: str) -> bool:
        """Return whether a client has begun the current turn, and is expected to end it."""
        return session in self._begun and session not in self._ended

    def forget(self, session: str) -> None:
        """Forget a closed session."""
        self._begun.pop(session, None)
        self._ended.discard(session)

    def _keep(self, session: str, begun: int) -> int:
        self._begun[session] = begun
        self._ended.discard(session)
        if len(self._begun) > _MAX_SESSIONS:
            self.forget(next(iter(self._begun)))
        return begun
