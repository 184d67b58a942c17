"""Membership of connections in sessions.

Rules: a session is created on first use and has no owner; a connection is an opaque key that may be in
several. The leaving of the last connection ends nothing: the session is then known by its handles, to the
registry only. So names do not accumulate, nor those of one connection: one that joins too many leaves the
first. Section 7.
"""

from __future__ import annotations

from collections.abc import Hashable

_MAX_JOINED = 1_024
"""Sessions of one connection."""


class Sessions:
    """The sessions that have connections."""

    __slots__ = ("_by_connection", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[str, dict[Hashable, None]] = {}
        self._by_connection: dict[Hashable, dict[str, None]] = {}

    def join(self, name: str, key: Hashable) -> bool:
        """Add the connection `key` to a session; return whether it was no member before."""
        names = self._by_connection.setdefault(key, {})
        if name in names:
            return False
        if len(names) >= _MAX_JOINED:
            first = next(iter(names))
            del names[first]
            self._drop(first, key)
        names[name] = None
        self._sessions.setdefault(name, {})[key] = None
        return True

    def leave(self, key: Hashable) -> list[str]:
        """Remove a closed connection; return the sessions that it leaves empty."""
        names = list(self._by_connection.pop(key, ()))
        for name in names:
            self._drop(name, key)
        return [name for name in names if name not in self._sessions]

    def close(self, name: str) -> None:
        """Forget the session; a later use creates the session anew."""
        for key in self._sessions.pop(name, ()):
            names = self._by_connection[key]
            del names[name]
            if not names:
                del self._by_connection[key]

    def names(self) -> list[str]:
        """Return the sessions that have connections, oldest first."""
        return list(self._sessions)

    def connections(self, name: str) -> int:
        """Return how many connections are in a session."""
        return len(self._sessions.get(name, ()))

    def members(self, name: str) -> list[Hashable]:
        """Return the connections in a session, in the order of joining."""
        return list(self._sessions.get(name, ()))

    def _drop(self, name: str, key: Hashable) -> None:
        connections = self._sessions[name]
        connections.pop(key, None)
        if not connections:
            del self._sessions[name]
