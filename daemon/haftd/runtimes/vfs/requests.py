"""Requests of a mediated process, answered concurrently.

Beyond `MAX_OUTSTANDING` unanswered requests the output is not read; replies wait for the process to
read its input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import trio

from haftd.host_calls.calls import HostCalls
from haftd.host_calls.messages import Request, read_request

from ..base import InputRefused
from ..process.events import LiveControl

MAX_OUTSTANDING = 256
MAX_AT_ONCE = 8


class HostRequests:
    """Requests of one process; `members` returns the pids of their programs."""

    def __init__(self, calls: HostCalls, members: Callable[[], tuple[int, ...]]) -> None:
        self.members = members
        self._calls = calls
        self._waiting: deque[Request] = deque()
        self._running = 0
        self._is_stopped = False
        self._nursery: trio.Nursery | None = None
        self._control: LiveControl | None = None
        self._room = trio.Event()
        self._sending = trio.Lock()

    @property
    def methods(self) -> Sequence[str]:
        return self._calls.methods

    def __len__(self) -> int:
        return len(self._waiting) + self._running

    def take(self, line: bytes) -> bool:
        request = read_request(line)
        if request is None:
            return False
        if self._is_stopped:
            return True
        self._waiting.append(request)
        self._start_worker()
        return True

    def keep_up(self) -> Awaitable[None] | None:
        return self._wait_room() if len(self) > MAX_OUTSTANDING else None

    async def serve(self, control: LiveControl) -> None:
        self._control = control
        try:
            async with trio.open_nursery() as self._nursery:
                for _ in range(MAX_AT_ONCE):
                    self._start_worker()
                await trio.sleep_forever()
        finally:
            self.stop()

    def stop(self) -> None:
        self._is_stopped = True
        self._waiting.clear()
        self._room.set()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    async def _wait_room(self) -> None:
        while len(self) > MAX_OUTSTANDING:
            self._room = trio.Event()
            await self._room.wait()

    def _start_worker(self) -> None:
        if self._nursery is not None and self._waiting and self._running < MAX_AT_ONCE:
            self._running += 1
            self._nursery.start_soon(self._answer_requests, self._waiting.popleft())

    async def _answer_requests(self, request: Request) -> None:
        try:
            while True:
                await self._send(await self._calls.answer(request))
                if not self._waiting:
                    return
                request = self._waiting.popleft()
                self._room.set()
        finally:
            self._running -= 1
            self._room.set()

    async def _send(self, reply: bytes) -> None:
        if self._control is None:
            raise AssertionError("a reply to a process that is not served yet")
        async with self._sending:
            try:
                await self._control.wait_put(reply)
            except InputRefused:
                pass  # it reads no more
