"""Conditions of `wait` (docs/protocol.md, "Waiting"), checked synchronously: on arrival, at the
handle's changes, and at the time of `look_again`."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec
import trio
from msgspec.structs import replace

from haft_protocol.methods import Wait
from haft_protocol.states import Waited
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.executions.execution import Execution
from haftd.runtimes.base import InputState

from .evidence import MIN_PERIOD_MS, READING_INTERVAL_S, IdleEvidence, PeriodicRedraw

_PRINTED_S = 0.00015
"""Silence before the kernel is asked: prompts come in pieces."""
_FEW_PIECES = 8
_MANY_PRINTED_S = 0.001
"""The same after more pieces than a prompt has."""
_MAX_PROMPTS = 3
"""Pieces of a wait's output that may end in a prompt, after each of which the kernel is asked immediately."""
_REDRAWN_S = 0.02
"""A program that redraws an unchanged screen waits again within this time."""
_MAX_PAUSE_S = 0.25
_START_S = 0.001
"""No program reads sooner after its start."""


class Reading(msgspec.Struct, frozen=True):
    """A call's wait and bounds, complete before the call acts."""

    wait: Wait
    timeout_s: float
    quiet_s: float
    pattern: str
    announced: bool
    """The reply has the reason: the caller asked for a wait."""
    is_reader: bool = True
    """False for a read-only connection: read offset and notices stay."""
    or_input: bool = False
    """A read of input also ends a wait for output."""


class Condition(msgspec.Struct):
    """Reason to reply, and the time of the next check."""

    handle: Handle
    reading: Reading
    since: int

    def check(self) -> Waited | None:
        handle, wait = self.handle, self.reading.wait
        state = handle.state
        if wait == "output":
            if handle.readable_end() > self.since:
                return "output"
            if state is State.WAITING:
                return "input"  # no output before the question's answer
        if state is State.STOPPED:
            return "stopped"
        return "quiet" if wait == "quiet" and self.is_quiet() else None

    def is_quiet(self) -> bool:
        return trio.current_time() >= self.quiet_at()

    def quiet_at(self) -> float:
        return self.handle.last_activity + self.reading.quiet_s

    def look_again(self) -> float:
        return self.quiet_at() if self.reading.wait == "quiet" else inf

    def input_state(self) -> InputState | None:
        """Return the input state that is the reason; None if something has happened since."""
        return None


class _InputCondition(Condition):
    """The process waits for input.

    The kernel is asked once output has paused, then at doubling intervals. If unknown, silence
    decides: no output, and no process began or ended. Output without visible change is not a sign of
    work: a process may redraw at every tick.
    """

    execution: Execution | None
    _min_pause_s: ClassVar[float] = _PRINTED_S
    _max_pause_s: ClassVar[float] = _MAX_PAUSE_S
    _pause: float = _PRINTED_S
    _due: float = 0.0
    _activity: float = -1.0
    _changed: float = -1.0
    """Time of the last event, except output without visible change."""
    _digest: int | None = None
    """Digest of the screen at `_changed`, if known."""
    _must_compare: bool = False
    """Output came since the last comparison."""
    _pieces: int = 0
    _has_looked_at_once: bool = False
    _prompts: int = 0
    _idle: IdleEvidence | None = None
    _redraw: PeriodicRedraw | None = None
    _input_state: InputState | None = None

    def check(self) -> Waited | None:
        if self.handle.stopped or self.execution is None:
            return "stopped"
        if self.handle.state is State.WAITING:
            return "input"
        now = trio.current_time()
        self._input_state = None
        if self._activity != self.handle.last_activity:
            self._note_activity()
        if now < self._due or self.handle.state is not State.RUNNING:
            return None
        input_state = self.execution.input_state()
        if input_state.state == "unknown" or input_state.within_ms is not None:
            self._compare()
        if input_state.state == "reads":
            self._input_state = input_state
            return self._believe(input_state, now)
        if input_state.state == "unknown":
            self._idle = None
        elif not (self._must_compare and now - self._activity <= _REDRAWN_S):
            self._change()
        self._doubt_redraw(now)
        if input_state.state == "unknown" and self.is_quiet():
            self._input_state = replace(input_state, is_stable=True)
            return "quiet"
        self._pause = min(2 * self._pause, self._max_pause_s)
        self._due = now + self._pause
        if input_state.state == "unknown":
            self._due = min(self._due, self.quiet_at())
        return None

    def _note_activity(self) -> None:
        before, activity = self._activity, self.handle.last_activity
        is_dense = activity - before < _MANY_PRINTED_S
        self._pieces = self._pieces + 1 if is_dense else 0
        self._activity = activity
        is_few = self._pieces <= _FEW_PIECES
        self._pause = self._min_pause_s if is_few else _MANY_PRINTED_S
        self._due = activity + self._pause
        if before >= 0 and self._take_look_at_once(activity - before):
            self._pause, self._due = self._pause / 2, activity
        if self._digest is not None and self.handle.last_output == activity:
            self._must_compare = True
        else:
            self._change()

    def _take_look_at_once(self, silence_s: float) -> bool:
        """True for the first output after a silence, and for output that ends within a line, as a
        prompt: the process may be at its read."""
        if self.handle.last_output != self._activity:
            return False
        if not self._has_looked_at_once and silence_s >= self._min_pause_s:
            self._has_looked_at_once = True
            return True
        if self._prompts >= _MAX_PROMPTS or not self.handle.ends_within_line:
            return False
        self._prompts += 1
        return True

    def _change(self) -> None:
        self._changed, self._idle = self._activity, None
        self._digest, self._must_compare = None, False

    def _compare(self) -> None:
        if self.execution is None:
            raise AssertionError("the input state of a handle without an execution was requested")
        if self._must_compare:
            digest = self.execution.screen_digest()
            if digest is None or digest != self._digest:
                self._change()
            self._digest, self._must_compare = digest, False
        elif self._digest is None:
            self._digest = self.execution.screen_digest()

    def _believe(self, input_state: InputState, now: float) -> Waited | None:
        """Return "input" once a read, with or without a timeout, is proven to wait for input."""
        within_ms, idle = input_state.within_ms, self._idle
        if self.execution is None:
            raise AssertionError("the input state of a handle without an execution was requested")
        if within_ms is None:
            if idle is not None and not self._must_compare:
                self._learn(self.execution, idle)
            return "input"
        if idle is None:
            # A process without output since its input may be about to end.
            has_answered = self.handle.readable_end() > self.since
            known_poll_ms = self.execution.known_poll_ms if has_answered else 0
            idle = self._idle = IdleEvidence(now, known_poll_ms)
            if self._record_redraw(input_state, within_ms, now):
                return "input"
        is_new = idle.record_wait(within_ms, now)
        if input_state.at_work:
            idle.require_longer_idle()
            self._doubt_redraw(now)
        elif self._redraw is not None:
            self._redraw.record_rest()
        enough_at = idle.enough_at()
        if now >= enough_at:
            if now >= idle.until:
                self._learn(self.execution, idle)
            return "input"
        # A wait of new length is judged at its end: often it is cut short (node).
        pause = (
            min(READING_INTERVAL_S, within_ms / 1000 + _PRINTED_S) if is_new else READING_INTERVAL_S
        )
        self._due = min(now + pause, enough_at)
        return None

    def quiet_at(self) -> float:
        if self.execution is None:
            raise AssertionError("the input state of a handle without an execution was requested")
        return max(self._changed, self.execution.silence.since) + self.reading.quiet_s

    @staticmethod
    def _learn(execution: Execution, idle: IdleEvidence) -> None:
        execution.known_poll_ms = max(execution.known_poll_ms, idle.longest_ms)

    def _record_redraw(self, input_state: InputState, within_ms: int, now: float) -> bool:
        redraw = self._redraw
        if input_state.kind != "key" or within_ms < MIN_PERIOD_MS:
            self._redraw = None
        elif redraw is None or not redraw.record_return(within_ms):
            self._redraw = PeriodicRedraw(within_ms, now)
        else:
            return redraw.is_display(now)
        return False

    def _doubt_redraw(self, now: float) -> None:
        if self._redraw is not None and not self._redraw.record_work(now):
            self._redraw = None

    def input_state(self) -> InputState | None:
        return self._input_state if self._activity == self.handle.last_activity else None

    def look_again(self) -> float:
        return self._due if self.handle.state is State.RUNNING else inf


class _OutputOrInputCondition(_InputCondition):
    """There is output, or the process waits for input; silence is not evidence, as most processes
    have not printed yet."""

    _min_pause_s = _START_S
    _max_pause_s = READING_INTERVAL_S

    def check(self) -> Waited | None:
        return Condition.check(self) or super().check()

    def is_quiet(self) -> bool:
        return False

    def quiet_at(self) -> float:
        return inf


def condition_of(
    handle: Handle, execution: Execution | None, reading: Reading, since: int
) -> Condition:
    """Return the condition of a reading without a pattern."""
    if reading.or_input:
        return _OutputOrInputCondition(handle, reading, since, execution)
    if reading.wait == "input":
        return _InputCondition(handle, reading, since, execution)
    return Condition(handle, reading, since)
