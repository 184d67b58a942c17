"""Locks of clients: what takes much memory or a thread is done for one call of a client at a time."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import trio


class ClientLocks:
    """A lock for each client, as long as the client is connected; calls get it in order.

    >>> class Client: ...
    >>> locks, client = ClientLocks(), Client()
    >>> locks.of(client) is locks.of(client), locks.of(client) is locks.of(Client())
    (True, False)
    """

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[object, trio.Lock] = WeakKeyDictionary()

    def of(self, client: object) -> trio.Lock:
        lock = self._locks.get(client)
        if lock is None:
            lock = self._locks[client] = trio.Lock()
        return lock
