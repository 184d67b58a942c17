"""Current turn of each session's conversation, from 1 (docs/protocol.md, "Turns"); the longest
unused sessions are forgotten."""

from __future__ import annotations

_MAX_SESSIONS = 4_096


class Turns:
    __slots__ = ("_begun", "_ended")

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        self._ended: set[str] = set()

    def begin(self, session: str) -> int:
        begun = self._begun.pop(session, 0) + 1
        return self._keep(session, begun)

    def end(self, session: str) -> int:
        """End the current turn and return its number; the first turn needs no `begin`."""
        begun = self._begun.pop(session, 0)
        if session in self._ended or not begun:
            begun += 1
        self._keep(session, begun)
        self._ended.add(session)
        return begun

    def is_begun(self, session: str) -> bool:
        """True while a client is expected to end the turn."""
        return session in self._begun and session not in self._ended

    def forget(self, session: str) -> None:
        self._begun.pop(session, None)
        self._ended.discard(session)

    def _keep(self, session: str, begun: int) -> int:
        self._begun[session] = begun
        self._ended.discard(session)
        if len(self._begun) > _MAX_SESSIONS:
            self.forget(next(iter(self._begun)))
        return begun
