"""Watch of the output of handles with notices of output.

A chunk only marks its handle as due. One task scans slices in turns and rests as long as each scan
took, so a flood takes half of the spare time at most. A handle has one notice per `BETWEEN_S`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

import structlog
import trio

from haftd.core.handles import Handle

from .matches import PatternMatches
from .pattern_scanner import PatternScanner

BETWEEN_S = 0.1
log = structlog.get_logger("haftd.notices.output_watcher")

Tell = Callable[[Handle, Collection[PatternMatches]], None]
"""Callback with the matches by pattern; with none, there is output."""


class _Watcher:
    __slots__ = ("due", "found", "handle", "ring", "scan", "tell_at")

    def __init__(self, handle: Handle, ring: Callable[[_Watcher], None]) -> None:
        self.handle = handle
        self.scan = PatternScanner(handle) if handle.settings.notify.patterns else None
        self.found: dict[str, PatternMatches] = {}
        self.due = False
        self.tell_at = 0.0
        self.ring: Callable[[], None] = partial(ring, self)

    @property
    def is_over(self) -> bool:
        """True once the complete output is scanned."""
        is_over = self.handle.stopped and self.handle.output_complete
        return is_over and (self.scan is None or not self.scan.has_unread)


class OutputWatcher:
    """All watched handles; `nursery` holds the scanning task."""

    def __init__(self, nursery: trio.Nursery, tell: Tell) -> None:
        self._tell = tell
        self._due: deque[_Watcher] = deque()
        self._later: dict[_Watcher, None] = {}
        self._count = 0
        self._bell = trio.Event()
        nursery.start_soon(self._run)

    def __len__(self) -> int:
        return self._count

    def follow(self, handle: Handle) -> None:
        """Scan the handle's output from the beginning if its settings need that."""
        if not handle.settings.notify.needs_output:
            return
        one = _Watcher(handle, self._ring)
        self._count += 1
        handle.listen(one.ring)
        one.ring()

    def _ring(self, one: _Watcher) -> None:
        if not one.due:
            one.due = True
            self._due.append(one)
            self._bell.set()

    async def _run(self) -> None:
        while True:
            at = min((one.tell_at for one in self._later), default=float("inf"))
            with trio.move_on_at(at):
                await self._bell.wait()
            self._bell = trio.Event()
            now = trio.current_time()
            for one in [one for one in self._later if one.tell_at <= now]:
                del self._later[one]
                self._ring(one)
            for _ in range(len(self._due)):
                began = trio.current_time()
                self._step(self._due.popleft())
                await trio.sleep(trio.current_time() - began)

    def _step(self, one: _Watcher) -> None:
        one.due = False
        try:
            self._look(one)
        except Exception:
            log.exception("output could not be looked at", handle=one.handle.id)
            self._drop(one)

    def _look(self, one: _Watcher) -> None:
        scan = one.scan
        if scan is not None and scan.has_unread:
            for found in scan.scan_slice():
                name = found.pattern.name
                one.found.setdefault(name, PatternMatches(found.pattern)).add(found)
        is_behind = scan is not None and scan.has_unread
        now = trio.current_time()
        if one.found or one.handle.settings.notify.on_content:
            if one.tell_at <= now or one.is_over:
                one.tell_at = now + BETWEEN_S
                matches, one.found = one.found, {}
                self._tell(one.handle, matches.values())
            else:
                self._later[one] = None
        if is_behind:
            self._ring(one)
        elif one.is_over:
            self._drop(one)

    def _drop(self, one: _Watcher) -> None:
        one.handle.unlisten(one.ring)
        self._later.pop(one, None)
        self._count -= 1
