"""Size of a terminal that several clients show: the latest resizing or typing client's.

A client without a size types without a claim. Clients are opaque keys.
"""

from __future__ import annotations

from collections.abc import Hashable

Size = tuple[int, int]
"""Rows and columns."""


class TerminalSizes:
    """The sizes of one terminal by client.

    >>> sizes = TerminalSizes()
    >>> sizes.resize("editor", (50, 100))
    >>> sizes.resize("phone", (20, 40))
    >>> sizes.claim("editor")
    (50, 100)
    >>> sizes.owner
    'editor'
    """

    __slots__ = ("_by_client", "current", "owner")

    def __init__(self) -> None:
        self._by_client: dict[Hashable, Size] = {}
        self.current: Size | None = None
        """Size now; None before the first resize."""
        self.owner: Hashable | None = None
        """Latest client that resized or typed, while connected."""

    def resize(self, client: Hashable, size: Size) -> None:
        self._by_client[client] = self.current = size
        self.owner = client

    def claim(self, client: Hashable) -> Size | None:
        """Make a typing client with a size the owner; return the size to apply, None where current."""
        size = self._by_client.get(client)
        if size is None:
            return None
        self.owner = client
        if size == self.current:
            return None
        self.current = size
        return size

    def leave(self, client: Hashable) -> bool:
        """Forget a client; return True for the owner."""
        self._by_client.pop(client, None)
        if self.owner != client:
            return False
        self.owner = None
        return True
