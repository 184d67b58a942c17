"""Membership of connections in sessions, and turns of their conversations.

A session begins on first use, without an owner; a connection is an opaque key of several sessions.
"""

from __future__ import annotations

from collections.abc import Hashable

_MAX_JOINED = 1_024


class Sessions:
    __slots__ = ("_by_connection", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[str, dict[Hashable, None]] = {}
        self._by_connection: dict[Hashable, dict[str, None]] = {}

    def join(self, name: str, key: Hashable) -> bool:
        """Add a connection to a session; return True if new.

        A connection in too many sessions leaves its first.
        """
        names = self._by_connection.get(key)
        if names is None:
            names = self._by_connection[key] = {}
        elif name in names:
            return False
        if len(names) >= _MAX_JOINED:
            first = next(iter(names))
            del names[first]
            self._drop(first, key)
        names[name] = None
        self._sessions.setdefault(name, {})[key] = None
        return True

    def leave(self, key: Hashable) -> list[str]:
        """Remove a closed connection; return the sessions left empty."""
        names = list(self._by_connection.pop(key, ()))
        for name in names:
            self._drop(name, key)
        return [name for name in names if name not in self._sessions]

    def close(self, name: str) -> None:
        for key in self._sessions.pop(name, ()):
            names = self._by_connection[key]
            del names[name]
            if not names:
                del self._by_connection[key]

    def names(self) -> list[str]:
        return list(self._sessions)

    def connections(self, name: str) -> int:
        return len(self._sessions.get(name, ()))

    def members(self, name: str) -> list[Hashable]:
        return list(self._sessions.get(name, ()))

    def _drop(self, name: str, key: Hashable) -> None:
        connections = self._sessions[name]
        connections.pop(key, None)
        if not connections:
            del self._sessions[name]


_MAX_SESSIONS = 4_096


class Turns:
    """Current turn of each session's conversation, from 1 (docs/protocol.md, "Turns"); the longest
    unused sessions are forgotten."""

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
