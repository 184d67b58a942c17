"""Which sessions there are and which connections are in them.

Rules: a session is made on first use and belongs to nobody; a connection is an opaque key that may
be in several sessions. That the last one has left is a fact to act on, not an end. Section 7.
"""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Sessions"]


class _Session:
    __slots__ = ("connections", "last_used")

    def __init__(self, now: float) -> None:
        self.connections: set[Hashable] = set()
        self.last_used = now


class Sessions:
    """All sessions that are known."""

    __slots__ = ("_by_connection", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._by_connection: dict[Hashable, set[str]] = {}

    def join(self, name: str, key: Hashable, now: float = 0.0) -> None:
        """The connection `key` uses the session, which is made if there is none."""
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = _Session(now)
        session.last_used = now
        if key not in session.connections:
            session.connections.add(key)
            self._by_connection.setdefault(key, set()).add(name)

    def leave(self, key: Hashable) -> list[str]:
        """The connection is gone; returns the sessions whose last one it was."""
        alone = []
        for name in sorted(self._by_connection.pop(key, ())):
            connections = self._sessions[name].connections
            connections.discard(key)
            if not connections:
                alone.append(name)
        return alone

    def close(self, name: str) -> bool:
        """Forget the session; returns whether it was known. A later use makes it anew."""
        session = self._sessions.pop(name, None)
        if session is None:
            return False
        for key in session.connections:
            names = self._by_connection[key]
            names.discard(name)
            if not names:
                del self._by_connection[key]
        return True

    def names(self) -> list[str]:
        """Name all sessions, the longest known first."""
        return list(self._sessions)

    def connections(self, name: str) -> int:
        """Count the connections that are in a session."""
        session = self._sessions.get(name)
        return len(session.connections) if session is not None else 0

    def last_used(self, name: str) -> float | None:
        """Return when a connection last used the session, None if it is not known."""
        session = self._sessions.get(name)
        return session.last_used if session is not None else None
