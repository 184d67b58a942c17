"""Wait on a terminal that no process has open, by an epoll of the loop for edges: the master stays
hung up, and a wait for readiness would spin.

An open gives no edge. The first output, a read of typed input, the next last close, and every write
to the master give one. Enter the watch, check the terminal, then wait: no edge is lost.
"""

from __future__ import annotations

import select

import trio

from haftd.host.readiness import LoopLocal

_EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET
_BLIND_S = 1.0
"""Between looks without a descriptor for the epoll."""


def is_hung_up(master: int, sought: int = select.POLLIN) -> bool:
    """True if no process has the other end open and the event `sought` is not pending."""
    poll = select.poll()
    poll.register(master, sought)
    return any(events & select.POLLHUP and not events & sought for _, events in poll.poll(0))


class _Watcher:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waiting: dict[int, list[TerminalChanges]] = {}
        trio.lowlevel.spawn_system_task(self._run)

    def enter(self, changes: TerminalChanges, master: int) -> None:
        if master not in self._waiting:
            self._epoll.register(master, _EDGES)
            self._waiting[master] = []
            self._hand_out()  # the state on entering is reported as an edge
        self._waiting[master].append(changes)

    def leave(self, changes: TerminalChanges, master: int) -> None:
        self._waiting[master].remove(changes)
        if not self._waiting[master]:
            del self._waiting[master]
            self._epoll.unregister(master)

    def _hand_out(self) -> None:
        for master, _ in self._epoll.poll(0):
            for changes in self._waiting.get(master, ()):
                changes.changed.set()

    async def _run(self) -> None:
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._hand_out()


_watcher = LoopLocal("hung up terminals", _Watcher)


class TerminalChanges:
    """Changes of a terminal since the context was entered."""

    __slots__ = ("_master", "_watcher", "changed")

    def __init__(self, master: int) -> None:
        self.changed = trio.Event()
        self._master = master
        self._watcher: _Watcher | None = None

    def __enter__(self) -> TerminalChanges:
        try:
            watcher = _watcher.get()
            watcher.enter(self, self._master)
        except OSError:
            return self
        self._watcher = watcher
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.leave(self, self._master)

    async def next(self) -> None:
        """Wait for a change that no earlier call has returned for; without a watch for `_BLIND_S`."""
        if self._watcher is None:
            await trio.sleep(_BLIND_S)
        else:
            await self.changed.wait()
            self.changed = trio.Event()
