"""Waits for handles, the one place where a call waits for them. No wait has a task: a handle's
changes evaluate the condition. Due waits are finished after the callbacks of the same pass of the
loop, by the task of a handle that has ended, or by one task, which has all deadlines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

import trio

from haftd.host import readiness, timer

from .base import HandleWait

_TURN_S = 0.001
"""Time to finish waits between two turns of other tasks."""
_MAX_STALE = 256

OnDue = Callable[[Callable[[], object]], None]
"""Called once with the function that continues the call: it returns a result or pending reply, or
raises. Must not raise."""


def register(wait: HandleWait, on_due: OnDue, *, in_batch: bool = False) -> RegisteredWait:
    """Call `on_due` in a later step of the loop, when the condition holds or at the deadline."""
    return RegisteredWait(_waits.get(), wait, on_due, in_batch=in_batch)


def finish_due() -> None:
    """Finish the due waits in this step of the loop. Only between events of handles: what a call goes
    on with may cause others."""
    _waits.get().finish_due()


class RegisteredWait:
    """Wait, until finished or withdrawn."""

    __slots__ = ("_fault", "_holds", "_is_over", "_on_due", "_time", "_value", "_wait", "_waits")

    def __init__(self, waits: _Waits, wait: HandleWait, on_due: OnDue, *, in_batch: bool) -> None:
        self._waits = waits
        self._wait = wait
        self._holds = (in_batch and wait.holds_in_batch) or wait.holds
        self._on_due = on_due
        self._is_over = False
        """True when due or withdrawn."""
        self._value: object = None
        self._fault: Exception | None = None
        self._time: _Time | None = None
        """Entry of the next evaluation without a change."""
        waits.count += 1
        for handle in wait.handles:
            (handle.listen_for_reply if wait.is_reader else handle.listen)(self.evaluate)
        self.evaluate()

    def evaluate(self) -> None:
        if self._is_over:
            return
        try:
            value = self._holds()
            if value is None:
                self._set_time()
                return
        except Exception as fault:
            self._put(None, fault)
        else:
            self._put(value)

    def evaluate_at(self, now: float) -> None:
        """Evaluate at the registered time; the condition may have moved it later."""
        self._time = None
        self.evaluate()
        if now >= self._wait.deadline:
            self._put(None)

    def _set_time(self) -> None:
        when = self._wait.deadline
        if self._wait.look_again is not None:
            when = min(when, self._wait.look_again())
        if when != inf and (self._time is None or when < self._time[0]):
            self._drop_time()
            self._time = self._waits.add_time(when, self)

    def _drop_time(self) -> None:
        if self._time is not None:
            self._time[2] = None
            self._time = None

    def _put(self, value: object, fault: Exception | None = None) -> None:
        # An evaluation may change the handle: the listener has then queued this wait.
        if not self._is_over:
            self._is_over, self._value, self._fault = True, value, fault
            self._waits.put(self)

    def withdraw(self) -> bool:
        """End the wait without a call of `on_due`; return False if the wait is already due."""
        if self._is_over:
            return False
        self._is_over = True
        self._leave()
        return True

    def finish(self) -> None:
        on_due = self._on_due
        self._leave()
        on_due(self._go_on)

    def _go_on(self) -> object:
        if self._fault is not None:
            raise self._fault
        return self._wait.then(self._value)

    def _leave(self) -> None:
        self._waits.count -= 1
        self._drop_time()
        for handle in self._wait.handles:
            (handle.unlisten_for_reply if self._wait.is_reader else handle.unlisten)(self.evaluate)
        self._on_due = _ignore  # no cycle for the garbage collector


_Time = list[Any]
"""Time of an evaluation, a unique number, and the wait; None once the evaluation is not needed."""


def _ignore(_: object) -> None:
    pass


class _Waits:
    """Registered waits of a trio run, and the task that finishes them."""

    def __init__(self) -> None:
        self.count = 0
        self._call_after = readiness.get_call_after()
        self._due: deque[RegisteredWait] = deque()
        self._times: list[_Time] = []
        self._number = 0
        self._scope = trio.CancelScope()
        self._is_parked = False
        self._is_finishing = False
        self._armed = inf
        """Time that the timer or the scope is set to."""
        self._is_timed = False
        """True if the timer is set; the scope's deadline then means nothing."""
        self._task = trio.lowlevel.spawn_system_task(self._run)

    def put(self, wait: RegisteredWait) -> None:
        self._due.append(wait)
        if len(self._due) > 1 or self._is_finishing:
            return
        if not self._call_after(self._finish_due):
            self._unpark()

    def add_time(self, when: float, wait: RegisteredWait) -> _Time:
        if len(self._times) > 2 * self.count + _MAX_STALE:
            self._times = [time for time in self._times if time[2] is not None]
            heapify(self._times)
        self._number += 1
        time: _Time = [when, self._number, wait]
        heappush(self._times, time)
        if when < self._armed:
            self._arm()
        return time

    def finish_due(self) -> None:
        if self._due and not self._is_finishing:
            self._finish_due()

    async def _run(self) -> None:
        while True:
            with trio.CancelScope() as self._scope:
                self._armed = inf
                self._arm()
                while True:
                    if self._due:
                        await trio.lowlevel.checkpoint()
                    else:
                        self._is_parked = True
                        await trio.lowlevel.wait_task_rescheduled(self._abort)
                    self._finish_due()
            self._evaluate_timed()

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._is_parked = False
        return trio.lowlevel.Abort.SUCCEEDED

    def _unpark(self) -> None:
        if self._is_parked:
            self._is_parked = False
            trio.lowlevel.reschedule(self._task)

    def _finish_due(self) -> None:
        """Finish due waits for a turn."""
        until = trio.current_time() + _TURN_S if len(self._due) > 1 else -inf
        self._is_finishing = True
        while self._due:
            self._due.popleft().finish()
            if self._due and trio.current_time() >= until:
                self._unpark()
                break
        self._is_finishing = False
        self._arm()

    def _evaluate_timed(self) -> None:
        now = trio.current_time()
        while self._times and self._times[0][0] <= now:
            _, _, wait = heappop(self._times)
            if wait is not None:
                wait.evaluate_at(now)
        self._armed = -inf
        self._arm()

    def _arm(self) -> None:
        """Set the timer for the first evaluation, or clear it if there is none: an idle daemon is not woken."""
        times = self._times
        while times and times[0][2] is None:
            heappop(times)
        first = times[0][0] if times else inf
        if first == self._armed:
            return
        self._armed = first
        left_s = inf if first == inf else first - trio.current_time()
        # The timer alone: a change of the scope's deadline takes trio three times as long.
        if left_s < timer.LOOP_RESOLUTION_S and timer.call_in(left_s, self._evaluate_timed):
            self._is_timed = True
            return
        if self._is_timed:
            self._is_timed = False
            timer.cancel(self._evaluate_timed)
        if first != self._scope.deadline:
            self._scope.deadline = first


_waits = readiness.LoopLocal("waits", _Waits)
