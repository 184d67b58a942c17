"""Conditions for waiting for input, on a simulated clock. The program is a script of its actions
and the kernel's reports. The condition is evaluated as by a waiting call: at each event, and
at the time that the condition names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from haft_protocol.states import Waited
from haftd.core.lifecycle import State
from haftd.executions.execution import Silence
from haftd.methods.conditions import Condition, Reading, condition_of
from haftd.runtimes.base import InputState
from tests.effort import examples

WORKS = InputState("reads", "key", 1000, at_work=True)
BUSY, UNKNOWN, READS = InputState("busy"), InputState("unknown", "key"), InputState("reads", "key")


def nap(ms: int) -> InputState:
    return InputState("reads", "key", ms)


@dataclass(frozen=True)
class Step:
    """For `s` seconds the kernel reports `wanted`; then output may come, which changes the
    screen unless already `drawn`, and is a whole line unless it `prompts`."""

    s: float
    wanted: InputState
    prints: bool = False
    drawn: bool = False
    prompts: bool = False


class Script:
    """A scripted program, in place of the handle and its execution."""

    stopped = False
    state = State.RUNNING

    known_poll_ms = 0
    printed = 1
    ends_within_line = False

    def __init__(self, *steps: Step, over: bool = False) -> None:
        self.steps, self.over = steps, over
        self.began = self.last_activity = trio.current_time()
        self.looks: list[float] = []
        self.silence = Silence()
        self.last_output = -1.0
        self.screen: int | None = 0

    def readable_end(self) -> int:
        return self.printed

    def now(self) -> tuple[int, float]:
        """Return the current step, and its end."""
        end = self.began
        for number, step in enumerate(self.steps):
            end += step.s
            if trio.current_time() < end - 1e-9:
                return number, end
        if self.over:
            self.began = end
            return self.now()
        return len(self.steps) - 1, end + 1e6

    def print(self, *, drawn: bool) -> None:
        self.last_activity = self.last_output = trio.current_time()
        self.printed += 1
        if self.screen is not None:
            self.screen += not drawn

    def screen_digest(self) -> int | None:
        return self.screen

    def input_state(self) -> InputState:
        self.looks.append(trio.current_time())
        wanted = self.steps[self.now()[0]].wanted
        self.silence.record(wanted, trio.current_time())
        return wanted


async def answered(
    script: Script,
    within_s: float = 60.0,
    quiet_s: float = 0.5,
    reading: Reading | None = None,
    since: int = 0,
) -> Waited | None:
    reading = reading or Reading("input", within_s, quiet_s, "", True)
    condition: Condition = condition_of(cast(Any, script), cast(Any, script), reading, since)
    deadline = trio.current_time() + reading.timeout_s
    while trio.current_time() < deadline:
        reason = condition.check()
        if reason is not None:
            return reason
        number, end = script.now()
        await trio.sleep_until(min(max(condition.look_again(), trio.current_time()), end))
        if trio.current_time() >= end - 1e-9 and script.steps[number].prints:
            script.ends_within_line = script.steps[number].prompts
            script.print(drawn=script.steps[number].drawn)
    return None


def play(
    *steps: Step, over: bool = False, screen: int | None = 0, **more: Any
) -> tuple[Waited | None, float, Script]:
    """Return the answer, its delay in seconds, and the script."""
    reports: list[tuple[Waited | None, float, Script]] = []

    async def main() -> None:
        script = Script(*steps, over=over)
        script.screen = screen
        began = trio.current_time()
        reports.append((await answered(script, **more), trio.current_time() - began, script))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return reports[0]


def test_a_wait_for_quiet_ends_at_the_first_quiet_moment() -> None:
    reading = Reading("quiet", 60.0, 0.5, "", True)
    reason, after, _ = play(Step(0.3, BUSY, True), Step(99, BUSY), reading=reading)
    assert reason == "quiet" and after == pytest.approx(0.8)


def test_a_wait_for_an_event_needs_no_timer() -> None:
    async def main() -> None:
        for wait in ("none", "output", "stopped"):
            reading = Reading(cast(Any, wait), 60.0, 0.5, "", True)
            script = cast(Any, Script(Step(99, BUSY)))
            assert condition_of(script, script, reading, 0).look_again() == math.inf

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_endless_wait_is_believed_once_the_output_has_settled() -> None:
    reason, after, _ = play(Step(9, READS))
    assert reason == "input" and after == pytest.approx(0.00015)


def test_a_working_program_is_inspected_in_doubling_pauses() -> None:
    reason, _, script = play(Step(99, BUSY))
    assert reason is None
    pauses = [late - early for early, late in zip(script.looks, script.looks[1:], strict=False)]
    assert pauses[:10] == pytest.approx([0.00015 * 2**n for n in range(1, 11)])
    assert pauses[10:] == pytest.approx([0.25] * len(pauses[10:]))


def test_a_printing_program_is_inspected_less() -> None:
    """A prompt comes in a few pieces; between many pieces there is no inspection."""
    few = [Step(0.0002, BUSY, prints=True)] * 3
    many = [Step(0.0002, BUSY, prints=True)] * 100
    assert len(play(*few, Step(9, READS))[2].looks) == 5
    assert len(play(*few, Step(0.05, BUSY), *many, Step(9, READS))[2].looks) < 25


def test_the_first_output_after_a_silence_is_inspected_at_once() -> None:
    """The program may read by then; later pieces have to settle."""
    reason, after, script = play(Step(0.0004, BUSY, prints=True), Step(9, READS))
    assert reason == "input" and after == pytest.approx(0.0004)
    assert script.looks == pytest.approx([script.began + 0.00015, script.began + 0.0004])
    pieces = [Step(0.0004, BUSY, prints=True)] * 2
    reason, after, _ = play(*pieces, Step(9, READS))
    assert reason == "input" and after == pytest.approx(0.0008 + 0.00015)
    at_once = Step(0.0001, BUSY, prints=True)
    assert play(at_once, Step(9, READS))[1] == pytest.approx(0.0001 + 0.00015)


def test_some_output_that_is_no_whole_line_is_inspected_at_once() -> None:
    """It may be the prompt, and comes soon after the echo of the input."""
    echo = Step(0.0002, BUSY, prints=True)
    prompt = Step(0.00005, BUSY, prints=True, prompts=True)
    reason, after, script = play(echo, prompt, Step(9, READS))
    assert reason == "input" and after == pytest.approx(0.00025)
    assert len(script.looks) == 3
    dots = [prompt] * 50
    assert len(play(echo, *dots, Step(9, READS))[2].looks) < 8


def test_in_an_unknown_state_silence_decides() -> None:
    reason, after, _ = play(Step(99, UNKNOWN))
    assert reason == "quiet" and after == pytest.approx(0.5 + 0.00015)
    reason, after, _ = play(Step(0.2, UNKNOWN, True), Step(99, UNKNOWN), quiet_s=3.0)
    assert reason == "quiet" and after == pytest.approx(3.2)


def test_silence_counts_only_in_an_unknown_state() -> None:
    """Between two commands of a shell there is no foreground job for a moment."""
    reason, after, _ = play(Step(5, BUSY), Step(99, UNKNOWN), quiet_s=1.0)
    assert reason == "quiet" and 6 <= after < 6.3
    reason, after, _ = play(
        Step(0.4, UNKNOWN), Step(0.3, BUSY), Step(0.4, UNKNOWN), Step(0.3, READS), Step(99, BUSY)
    )
    assert reason == "input" and 1.1 <= after < 1.4
    assert play(Step(0.4, UNKNOWN), Step(0.3, BUSY), over=True)[0] is None


def test_a_start_or_end_between_two_looks_breaks_the_silence() -> None:
    commands = [
        Step(0.1, InputState("unknown", "line", processes=frozenset({(number, 0, 0)})))
        for number in range(100)
    ]
    reason, after, _ = play(*commands, Step(99, UNKNOWN))
    assert reason == "quiet" and 10.5 <= after < 10.8


async def test_silence_seen_by_an_earlier_call_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script(Step(99, UNKNOWN))
    assert await answered(script) == "quiet"
    began = trio.current_time()
    assert await answered(script) == "quiet" and trio.current_time() == began


async def test_a_conclusion_from_silence_is_reported_as_settled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script(Step(99, UNKNOWN))
    reading = Reading("input", 60.0, 0.5, "", True)
    condition = condition_of(cast(Any, script), cast(Any, script), reading, 0)
    while condition.check() is None:
        await trio.sleep_until(condition.look_again())
    found = condition.input_state()
    assert found is not None and found.state == "unknown" and found.is_stable


def test_the_rest_of_an_escape_sequence_is_waited_for() -> None:
    reason, after, _ = play(Step(0.1, nap(100)), Step(99, READS))
    assert reason == "input" and 0.1 <= after < 0.15


def started(*steps: Step, within_s: float = 0.25) -> tuple[Waited | None, float, Script]:
    """Return the answer to a start on a pipe, for which output or a read suffices."""
    reading = Reading("output", within_s, 0.5, "", True, or_input=True)
    return play(*steps, reading=reading, since=1)


def test_a_start_on_a_pipe_is_answered_at_the_first_output_or_read() -> None:
    reason, after, _ = started(Step(0.02, BUSY), Step(9, READS))
    assert reason == "input" and 0.02 <= after <= 0.04
    reason, after, _ = started(Step(0.02, BUSY, prints=True), Step(9, READS))
    assert reason == "output" and after == pytest.approx(0.02)
    reason, after, _ = started(Step(0.2, BUSY), Step(9, READS))
    assert reason == "input" and 0.2 <= after <= 0.24


def test_a_start_on_a_pipe_is_not_answered_for_silence() -> None:
    assert started(Step(9, UNKNOWN))[0] is None
    reason, _, script = started(Step(9, BUSY))
    assert reason is None and len(script.looks) <= 11


@settings(max_examples=examples(16))
@given(st.integers(1, 1499))
def test_a_periodic_wait_is_believed_after_an_idle_round(ms: int) -> None:
    reason, after, _ = play(Step(ms / 1000, nap(ms)), over=True)
    assert reason == "input" and max(0.3, ms / 1000) <= after <= max(0.3, ms / 1000) + 0.06


@settings(max_examples=examples(16))
@given(
    st.lists(st.integers(1, 499), min_size=1, max_size=8)
    | st.lists(st.integers(1, 1499), min_size=1, max_size=2)
)
def test_waits_that_end_in_output_are_work(naps_ms: list[int]) -> None:
    """A program that listens to the keyboard during its sleeps, of any lengths."""
    work = [Step(ms / 1000, nap(ms), prints=True) for ms in naps_ms]
    reason, after, _ = play(*work, Step(99, READS))
    assert reason == "input" and after >= sum(naps_ms) / 1000


@pytest.mark.parametrize("pieces", [(500, 200), (100, 600), (300, 90, 700)])
def test_the_rest_of_a_longer_wait_must_end_too(pieces: tuple[int, ...]) -> None:
    """Another timer wakes the loop in between; the long one goes on."""
    reason, after, _ = play(
        *(Step(ms / 1000, nap(ms)) for ms in pieces[:-1]),
        Step(pieces[-1] / 1000, nap(pieces[-1]), prints=True),
        Step(99, READS),
    )
    assert reason == "input" and after >= sum(pieces) / 1000 - 1e-9


@pytest.mark.parametrize("ms", [50, 250, 1000])
def test_output_without_a_visible_change_is_no_sign_of_work(ms: int) -> None:
    """An interface that draws the same at every tick, and takes a moment to return to its wait."""
    quiet = play(Step(ms / 1000, nap(ms)), over=True)[1]
    again = (Step(ms / 1000, nap(ms), prints=True, drawn=True), Step(0.001, BUSY))
    reason, after, script = play(*again, over=True)
    assert reason == "input" and after <= quiet + 0.06
    assert script.known_poll_ms == ms


def test_output_without_a_visible_change_is_work_where_more_than_drawing_happens() -> None:
    again = Step(0.05, nap(50), prints=True, drawn=True)
    assert play(again, Step(0.05, BUSY), over=True, within_s=10.0)[0] is None


def test_an_unknown_screen_counts_as_changed() -> None:
    again = Step(0.05, nap(50), prints=True, drawn=True)
    assert play(again, over=True, within_s=10.0, screen=None)[0] is None


def test_in_an_unknown_state_output_without_a_change_is_silence() -> None:
    again = Step(0.1, UNKNOWN, prints=True, drawn=True)
    reason, after, _ = play(again, over=True)
    assert reason == "quiet" and after == pytest.approx(0.5, abs=0.01)
    assert play(Step(0.1, UNKNOWN, prints=True), over=True, within_s=5.0)[0] is None


async def test_input_meanwhile_begins_a_new_wait_although_the_screen_stays(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script(Step(9, nap(400)))
    reading = Reading("input", 60.0, 0.5, "", True)
    condition = condition_of(cast(Any, script), cast(Any, script), reading, 0)
    began = trio.current_time()
    while condition.check() is None:
        await trio.sleep_until(condition.look_again())
        if trio.current_time() - began < 0.3:
            script.last_activity = trio.current_time()
    assert trio.current_time() - began >= 0.7


def test_a_continuously_redrawn_display_is_working() -> None:
    reason, _, script = play(Step(0.1, nap(100), prints=True), over=True, within_s=10.0)
    assert reason is None and len(script.looks) < 500


@pytest.mark.parametrize("ms", [500, 1000, 1499])
def test_a_periodically_redrawn_display_waits_after_two_returns(
    ms: int,
) -> None:
    """`top -d 1` reads the figures, draws, and listens to the keyboard for a second."""
    reason, after, _ = play(
        Step(0.03, BUSY, prints=True), Step(ms / 1000, nap(ms)), Step(0.02, BUSY), over=True
    )
    assert reason == "input" and 2 * ms / 1000 <= after < 2 * (ms / 1000 + 0.05) + 0.1


@pytest.mark.parametrize(
    "steps",
    [
        (Step(0.499, nap(499), prints=True),),  # too often
        (Step(0.6, nap(600), prints=True), Step(0.9, nap(900), prints=True)),  # never the same
        (Step(1, InputState("reads", "line", 1000), prints=True),),  # not for a key
        (Step(0.6, nap(600), prints=True), Step(0.3, BUSY)),  # works for too long in between
        (Step(0.6, nap(600)), Step(0.25, BUSY, prints=True)),
        (Step(1, WORKS, prints=True),),  # beside, all the time
        (Step(0.3, WORKS), Step(0.7, nap(1000), prints=True)),
    ],
)
def test_an_irregularly_redrawn_display_is_working(steps: tuple[Step, ...]) -> None:
    assert play(*steps, over=True, within_s=20.0)[0] is None


def test_a_display_that_reads_its_figures_concurrently_waits() -> None:
    reason, after, _ = play(
        Step(0.05, WORKS),
        Step(0.5, nap(1000)),
        Step(0.05, WORKS),
        Step(0.4, nap(1000), prints=True),
        over=True,
    )
    assert reason == "input" and 2 <= after < 2.1


def test_a_mostly_working_program_is_found_working() -> None:
    reason, _, _ = play(Step(0.06, BUSY), Step(0.02, nap(20)), over=True)
    assert reason is None


def test_a_periodic_wait_of_many_lengths_is_believed_in_the_end() -> None:
    naps = (20, 90, 45, 400, 130, 250, 70)
    reason, after, _ = play(*(Step(ms / 1000, nap(ms)) for ms in naps), over=True)
    assert reason == "input" and after <= 1.6


async def test_activity_at_one_prompt_is_known_at_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An event loop that reads the size of its terminal twice a second."""
    script = Script(Step(0.5, nap(500)), over=True)

    async def took(*steps: Step) -> float:
        script.steps, script.began = steps, trio.current_time()
        script.last_activity = trio.current_time()
        began = trio.current_time()
        assert await answered(script) == "input"
        return trio.current_time() - began

    assert await took(Step(0.5, nap(500))) >= 0.5
    assert await took(Step(0.5, nap(500))) < 0.05
    assert await took(Step(0.25, nap(250)), Step(0.5, nap(500))) < 0.05, "what is left of it"
    busy = InputState("reads", "key", 500, at_work=True)
    assert await took(Step(0.25, busy), Step(9, READS)) >= 0.25, "it works beside"
    script.printed = 0
    assert await took(Step(0.5, nap(500))) >= 0.5, "it has not answered to what it was given"
    script.printed = 1
    assert await took(Step(0.7, nap(700))) >= 0.7
    assert await took(Step(0.02, nap(20)), Step(0.3, nap(300))) >= 0.3, "too short to be known"


async def test_activity_before_an_endless_wait_is_known(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script(Step(0.1, nap(100)), Step(0.4, nap(390)), Step(9, READS))
    assert await answered(script) == "input"
    script.began = script.last_activity = began = trio.current_time()
    assert await answered(script) == "input" and trio.current_time() - began < 0.05


async def test_a_conclusion_is_dropped_once_output_comes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script(Step(99, READS))
    reading = Reading("input", 60.0, 0.5, "", True)
    condition = condition_of(cast(Any, script), cast(Any, script), reading, 0)
    assert condition.check() is None and condition.input_state() is None
    await trio.sleep_until(condition.look_again())
    assert condition.check() == "input" and condition.input_state() is READS
    await trio.sleep(0.001)
    script.last_activity = trio.current_time()
    assert condition.input_state() is None
    assert condition.check() is None and condition.input_state() is None
    await trio.sleep_until(condition.look_again())
    assert condition.check() == "input" and condition.input_state() is READS


def test_a_program_not_running_yet_is_not_inspected() -> None:
    class Unstarted(Script):
        state = State.PENDING

    async def main() -> None:
        script = Unstarted(Step(99, READS))
        reading = Reading("input", 60.0, 0.5, "", True)
        condition = condition_of(cast(Any, script), cast(Any, script), reading, 0)
        await trio.sleep(1)
        assert condition.check() is None and condition.look_again() == math.inf
        assert script.looks == []

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_unfinished_wait_that_was_believed_is_not_known() -> None:
    reason, after, script = play(Step(0.3, nap(100)), Step(99, nap(1300)))
    assert reason == "input" and after == pytest.approx(1.5, abs=0.01)
    assert script.known_poll_ms == 0
    assert play(Step(99, nap(1300)))[2].known_poll_ms == 1300


def test_a_constantly_waking_program_is_inspected_evenly() -> None:
    reason, _, script = play(Step(0.001, nap(1)), over=True)
    assert reason == "input" and len(script.looks) < 12
