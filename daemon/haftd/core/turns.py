"""Which turn of its conversation a session is in.

Rules: pure. Turns are counted from 1, and a session has its first from its start. Names are not kept
for ever: of the sessions that have counted, the longest unused begin anew. Section 7.
"""

from __future__ import annotations

__all__ = ["Turns"]

_MAX_SESSIONS = 4_096


class Turns:
    """The turns of all sessions."""

    __slots__ = ("_begun", "_ended")

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        self._ended: set[str] = set()

    def begin(self, session: str) -> int:
        """Begin a turn: the next, unless the session has had none."""
        begun = self._begun.pop(session, 0) + 1
        return self._keep(session, begun)

    def end(self, session: str) -> int:
        """End the turn that it is in, which was begun by its start if by nothing else."""
        begun = self._begun.pop(session, 0)
        if session in self._ended or not begun:
            begun += 1
        self._keep(session, begun)
        self._ended.add(session)
        return begun

    def is_begun(self, session: str) -> bool:
        """Whether somebody has begun the turn that it is in, and is so expected to end it."""
        return session in self._begun and session not in self._ended

    def forget(self, session: str) -> None:
        """The session is closed."""
        self._begun.pop(session, None)
        self._ended.discard(session)

    def _keep(self, session: str, begun: int) -> int:
        self._begun[session] = begun
        self._ended.discard(session)
        if len(self._begun) > _MAX_SESSIONS:
            self.forget(next(iter(self._begun)))
        return begun
