"""Membership of connections in sessions, and turns of their conversations.

A session without connections is not here: the registry keeps its handles. A connection is an opaque
key, which may be in several sessions.
"""

from __future__ import annotations

from collections.abc import Hashable

_MAX_JOINED = 1_024
"""Sessions of one connection. The one that it joined first is left: it is asked nothing more for that
session, and its disconnect ends no handle of it."""


class Sessions:
    """Sessions that have connections, and the sessions of each connection."""

    __slots__ = ("_by_connection", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[str, dict[Hashable, None]] = {}
        self._by_connection: dict[Hashable, dict[str, None]] = {}

    def join(self, name: str, connection: Hashable) -> bool:
        """Add a connection to a session; return False if it is a member already.

        A connection in `_MAX_JOINED` sessions leaves the one that it joined first.
        """
        names = self._by_connection.get(connection)
        if names is None:
            names = self._by_connection[connection] = {}
        elif name in names:
            return False
        if len(names) >= _MAX_JOINED:
            first = next(iter(names))
            del names[first]
            self._drop(first, connection)
        names[name] = None
        self._sessions.setdefault(name, {})[connection] = None
        return True

    def leave(self, connection: Hashable) -> list[str]:
        """Remove a closed connection; return the sessions left empty."""
        names = list(self._by_connection.pop(connection, ()))
        for name in names:
            self._drop(name, connection)
        return [name for name in names if name not in self._sessions]

    def close(self, name: str) -> None:
        for connection in self._sessions.pop(name, ()):
            names = self._by_connection[connection]
            del names[name]
            if not names:
                del self._by_connection[connection]

    def names(self) -> list[str]:
        return list(self._sessions)

    def connections(self, name: str) -> int:
        return len(self._sessions.get(name, ()))

    def members(self, name: str) -> list[Hashable]:
        return list(self._sessions.get(name, ()))

    def _drop(self, name: str, connection: Hashable) -> None:
        connections = self._sessions[name]
        connections.pop(connection, None)
        if not connections:
            del self._sessions[name]


_MAX_COUNTED = 4_096
"""Sessions whose turns are counted."""


class Turns:
    """Current turn of each session's conversation, from 1 (docs/protocol.md, "Turns"); of the
    least recently used sessions the turns are forgotten, and count from 1 again."""

    __slots__ = ("_ended", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ended: set[str] = set()

    def begin(self, session: str) -> int:
        number = self._numbers.pop(session, 0) + 1
        return self._keep(session, number)

    def end(self, session: str) -> int:
        """End the current turn and return its number; a turn that was not begun is begun and ended."""
        number = self._numbers.pop(session, 0)
        if session in self._ended or not number:
            number += 1
        self._keep(session, number)  # discards the session from `_ended`
        self._ended.add(session)
        return number

    def is_begun(self, session: str) -> bool:
        """True if a client has begun the turn with `turn/begin` and not ended it."""
        return session in self._numbers and session not in self._ended

    def forget(self, session: str) -> None:
        self._numbers.pop(session, None)
        self._ended.discard(session)

    def _keep(self, session: str, number: int) -> int:
        self._numbers[session] = number
        self._ended.discard(session)
        if len(self._numbers) > _MAX_COUNTED:
            self.forget(next(iter(self._numbers)))
        return number
