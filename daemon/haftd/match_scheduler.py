"""Where clients' regular expressions are matched: a short text in the loop, any other in a thread.

RE2 matches a text in microseconds, or, where the automaton of an expression becomes too large, at some ten
nanoseconds for each byte and instruction. It lets other threads run meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

import trio

T = TypeVar("T")

MAX_THREADS = 2
"""Threads that match at a time: the loop keeps a processor of a small machine."""
_MAX_LOOP_COST = 250_000
"""Instructions times bytes of a text matched in the loop: three milliseconds at worst."""
_MIN_LOOP_SIZE = 128
"""Bytes below which a text is not worth a call in the loop."""
_SHORT_S = 0.0005
"""Expected time of a text matched in the loop, at most."""
_NOISE_SIZE = 1_024
"""Bytes below which the time of a text does not depend on its size."""
_FREE_S = 0.0001
"""Time of a text that is not counted."""
_MAX_CREDIT_S = 0.003
"""Time that slow expressions may take in the loop after a pause."""
_CREDIT_SHARE = 0.1
"""Share of the loop's time for matching that takes long."""

_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("matching")
"""Limit of a run: a thread that outlives its run gives nothing back."""
_clients: WeakKeyDictionary[object, trio.CapacityLimiter] = WeakKeyDictionary()
"""Limits of clients, as long as they are connected."""


def _threads() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
        return limiter


class Turn:
    """A client's turn to have a text matched in a thread: each client has one text at a time in a thread
    or in the queue for one.

    To be entered before the text is read. The thread of a cancelled call cannot be ended: the turn lasts
    until the thread ends. `trio.to_thread` takes the turn for its limiter.
    """

    __slots__ = ("_is_with_thread", "_limiter")

    def __init__(self, client: object) -> None:
        limiter = _clients.get(client)
        if limiter is None:
            limiter = _clients[client] = trio.CapacityLimiter(1)
        self._limiter = limiter
        self._is_with_thread = False

    async def __aenter__(self) -> Turn:
        await self._limiter.acquire_on_behalf_of(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_with_thread:
            self._limiter.release_on_behalf_of(self)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a thread; called by trio."""
        await _threads().acquire_on_behalf_of(borrower)
        self._is_with_thread = True

    def release_on_behalf_of(self, borrower: object) -> None:
        """End the turn with its thread; called by trio, also after a cancellation."""
        _threads().release_on_behalf_of(borrower)
        self._limiter.release_on_behalf_of(self)


class _Credit:
    """Time that all expressions may still take in the loop: many that turn out to be slow in the same
    pass would add up."""

    def __init__(self) -> None:
        self._left_s = _MAX_CREDIT_S
        self._at = time.monotonic()

    def is_left(self) -> bool:
        now = time.monotonic()
        self._left_s = min(_MAX_CREDIT_S, self._left_s + (now - self._at) * _CREDIT_SHARE)
        self._at = now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        if seconds > _FREE_S:
            self._left_s -= seconds


_credit = _Credit()


class MatchScheduler:
    """Matching by one or more expressions, of so many instructions together; knows how long the last
    text took.

    >>> MatchScheduler(10).match(lambda: "match", 2_000)
    'match'
    """

    __slots__ = ("_instructions", "_pace_s", "used_s")

    def __init__(self, instructions: int) -> None:
        self._instructions = max(1, instructions)
        self._pace_s = 0.0
        """Seconds for a byte of the last text."""
        self.used_s = 0.0
        """Seconds of processor time that the last text took."""

    def loop_size(self) -> int:
        """Return the bytes of a text that may be matched in the loop now."""
        size = _MAX_LOOP_COST // self._instructions
        if self._pace_s:
            size = min(size, int(_SHORT_S / self._pace_s))
        return size if size >= _MIN_LOOP_SIZE and _credit.is_left() else 0

    def match(self, work: Callable[[], T], size: int) -> T:
        """Return the result of `work`, which matches a text of `size` bytes, in the loop."""
        began = time.thread_time()
        result = work()
        self._record(time.thread_time() - began, size)
        _credit.spend(self.used_s)
        return result

    async def match_in_thread(self, turn: Turn, work: Callable[[], T], size: int) -> T:
        """Return the same from a thread, which ends the turn; cancellation abandons the thread."""

        def timed() -> tuple[T, float]:
            began = time.thread_time()
            return work(), time.thread_time() - began

        result, seconds = await trio.to_thread.run_sync(
            timed, abandon_on_cancel=True, limiter=cast(trio.CapacityLimiter, turn)
        )
        self._record(seconds, size)
        return result

    def _record(self, seconds: float, size: int) -> None:
        self.used_s = seconds
        self._pace_s = seconds / max(size, _NOISE_SIZE)
