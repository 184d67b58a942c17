"""Which connections are in which sessions.

Rules: a session is made on first use and belongs to nobody; a connection is an opaque key that may
be in several. That its last one has left ends nothing: the session is then known by its handles,
to the registry, and here no more. So names do not pile up, nor do those of one connection: one
that uses too many leaves the one that it joined first. Section 7.
"""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Sessions"]

_MAX_JOINED = 1_024
"""In how many sessions a connection is counted."""


class Sessions:
    """The sessions that have connections."""

    __slots__ = ("_by_connection", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[str, dict[Hashable, None]] = {}
        self._by_connection: dict[Hashable, dict[str, None]] = {}

    def join(self, name: str, key: Hashable) -> bool:
        """The connection `key` uses the session; whether it did not before."""
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
        """The connection is gone; returns the sessions of which it was the last."""
        names = list(self._by_connection.pop(key, ()))
        for name in names:
            self._drop(name, key)
        return [name for name in names if name not in self._sessions]

    def close(self, name: str) -> None:
        """Forget the session. A later use makes it anew."""
        for key in self._sessions.pop(name, ()):
            names = self._by_connection[key]
            del names[name]
            if not names:
                del self._by_connection[key]

    def names(self) -> list[str]:
        """Name the sessions that have connections, the longest known first."""
        return list(self._sessions)

    def connections(self, name: str) -> int:
        """Count the connections that are in a session."""
        return len(self._sessions.get(name, ()))

    def members(self, name: str) -> list[Hashable]:
        """The connections that are in a session, who came first first."""
        return list(self._sessions.get(name, ()))

    def _drop(self, name: str, key: Hashable) -> None:
        connections = self._sessions[name]
        connections.pop(key, None)
        if not connections:
            del self._sessions[name]
