"""A terminal shown by several clients has the size of the client that last resized it or typed.

A client that never gave a size does not become the owner by typing. Clients are opaque keys.
"""

from __future__ import annotations

from collections.abc import Hashable

Size = tuple[int, int]
"""Rows and columns."""


class TerminalSizes:
    """The sizes that clients gave one terminal, the size in force and its owner.

    >>> sizes = TerminalSizes()
    >>> sizes.resize("editor", (50, 100))
    >>> sizes.resize("phone", (20, 40))
    >>> sizes.wanted("editor")
    (50, 100)
    >>> sizes.claim("editor"), sizes.owner, sizes.wanted("editor")
    (True, 'editor', None)
    """

    __slots__ = ("_by_client", "current", "owner")

    def __init__(self) -> None:
        self._by_client: dict[Hashable, Size] = {}
        self.current: Size | None = None
        """Size in force; None before the first resize."""
        self.owner: Hashable | None = None
        """Client whose size is in force; None before the first resize, and once it has left."""

    def resize(self, client: Hashable, size: Size) -> None:
        self._by_client[client] = self.current = size
        self.owner = client

    def wanted(self, client: Hashable) -> Size | None:
        """Return the size to apply before a client types; None if it gave none, or if its size is in
        force already."""
        size = self._by_client.get(client)
        return None if size == self.current else size

    def claim(self, client: Hashable) -> bool:
        """Make a client that has typed the owner, if it gave a size; return True for a new owner."""
        size = self._by_client.get(client)
        if size is None:
            return False
        was, self.owner, self.current = self.owner, client, size
        return was != client

    def leave(self, client: Hashable) -> bool:
        """Forget a client; return True if it was the owner. The size stays in force."""
        self._by_client.pop(client, None)
        if self.owner != client:
            return False
        self.owner = None
        return True
