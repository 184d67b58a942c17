"""Watch of handles with notices of output.

A chunk only marks its handle as due. One task scans slices in turns, costly ones in a thread, and rests
as long as each scan took: a flood takes half of the spare time at most. A handle's notices are delivered once per
`BETWEEN_S`, and again at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

import structlog
import trio

from haftd.core.handles import Handle
from haftd.match_scheduler import Turn

from .pattern_scanner import MatchedLine, PatternMatches, PatternScanner

BETWEEN_S = 0.1
"""Fewer deliveries would be late for a reader, and more would be noise."""
log = structlog.get_logger("haftd.notices.output_watcher")

Deliver = Callable[[Handle, Collection[PatternMatches]], None]
"""Callback with the matches by pattern; with none, there is output."""


class _Watcher:
    __slots__ = ("deliver_at", "due", "handle", "mark_due", "matches", "scan")

    def __init__(self, handle: Handle, mark_due: Callable[[_Watcher], None]) -> None:
        self.handle = handle
        self.scan = PatternScanner(handle) if handle.settings.notify.patterns else None
        self.matches: dict[str, PatternMatches] = {}
        self.due = False
        self.deliver_at = 0.0
        self.mark_due: Callable[[], None] = partial(mark_due, self)

    @property
    def is_over(self) -> bool:
        """True once the complete output is scanned."""
        is_over = self.handle.stopped and self.handle.output_complete
        return is_over and (self.scan is None or not self.scan.has_unread)


class OutputWatcher:
    """All watched handles; `nursery` holds the scanning task."""

    def __init__(self, nursery: trio.Nursery, deliver: Deliver) -> None:
        self._deliver = deliver
        self._due: deque[_Watcher] = deque()
        self._later: dict[_Watcher, None] = {}
        self._count = 0
        self._wakeup = trio.Event()
        nursery.start_soon(self._run)

    def __len__(self) -> int:
        return self._count

    def follow(self, handle: Handle) -> None:
        """Scan the handle's output from the beginning if its settings need that."""
        if not handle.settings.notify.needs_output:
            return
        watcher = _Watcher(handle, self._mark_due)
        self._count += 1
        handle.listen(watcher.mark_due)
        watcher.mark_due()

    def _mark_due(self, watcher: _Watcher) -> None:
        if not watcher.due:
            watcher.due = True
            self._due.append(watcher)
            self._wakeup.set()

    async def _run(self) -> None:
        while True:
            at = min((watcher.deliver_at for watcher in self._later), default=float("inf"))
            with trio.move_on_at(at):
                await self._wakeup.wait()
            self._wakeup = trio.Event()
            now = trio.current_time()
            for watcher in [watcher for watcher in self._later if watcher.deliver_at <= now]:
                del self._later[watcher]
                self._mark_due(watcher)
            for _ in range(len(self._due)):
                began = trio.current_time()
                await self._step(self._due.popleft())
                await trio.sleep(trio.current_time() - began)

    async def _step(self, watcher: _Watcher) -> None:
        watcher.due = False
        try:
            await self._scan(watcher)
        except Exception:
            log.exception("output could not be scanned", handle=watcher.handle.id)
            self._drop(watcher)

    async def _scan(self, watcher: _Watcher) -> None:
        scan = watcher.scan
        if scan is not None and scan.has_unread:
            for line in await self._matches(scan):
                name = line.pattern.name
                watcher.matches.setdefault(name, PatternMatches(line.pattern)).add(line)
        is_behind = scan is not None and scan.has_unread
        now = trio.current_time()
        if watcher.matches or watcher.handle.settings.notify.on_content:
            if watcher.deliver_at <= now or watcher.is_over:
                watcher.deliver_at = now + BETWEEN_S
                matches, watcher.matches = watcher.matches, {}
                self._deliver(watcher.handle, matches.values())
            else:
                self._later[watcher] = None
        if is_behind:
            self._mark_due(watcher)
        elif watcher.is_over:
            self._drop(watcher)

    async def _matches(self, scan: PatternScanner) -> list[MatchedLine]:
        """Return the matches of the next slice, matched in a thread by costly patterns."""
        matching = scan.matching
        loop_size = matching.loop_size() - scan.carried_size
        part = scan.read(loop_size) if loop_size > 0 else scan.read()
        if part is None:
            return []
        size = len(part.text)
        if loop_size > 0:
            return scan.take(part, matching.match(part.find_matches, size))
        async with Turn(self) as turn:
            return scan.take(part, await matching.match_in_thread(turn, part.find_matches, size))

    def _drop(self, watcher: _Watcher) -> None:
        watcher.handle.unlisten(watcher.mark_due)
        self._later.pop(watcher, None)
        self._count -= 1
