"""An event that makes trio's object for the first waiting task."""

from __future__ import annotations

import trio


class LateEvent:
    """As `trio.Event`, in a quarter of the memory while no task waits."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: trio.Event | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        if self._is_set:
            await trio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
