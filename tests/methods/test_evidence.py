"""Evidence from timed waits, by numbers, without a program or a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.methods.evidence import IdleEvidence, PeriodicRedraw


def seen(*waits: tuple[float, int], known_poll_ms: int = 0) -> IdleEvidence:
    """Return the evidence for a program seen in these waits: start and maximum length of each."""
    idle = IdleEvidence(0.0, known_poll_ms)
    for now, within_ms in waits:
        idle.record_wait(within_ms, now)
    return idle


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 10_000)), min_size=1))
def test_idleness_is_believed_after_a_while_and_by_the_longest_wait(
    waits: list[tuple[float, int]],
) -> None:
    assert 0.3 <= seen(*waits).enough_at() <= 1.5


@pytest.mark.parametrize(
    ("within_ms", "is_new"), [(400, False), (445, False), (446, True), (355, False), (354, True)]
)
def test_a_wait_has_a_known_length_within_a_tenth_and_a_moment(
    within_ms: int, is_new: bool
) -> None:
    idle = seen((0.0, 400))
    assert idle.record_wait(within_ms, 0.1) == is_new
    longest_ms, until = (max(400, within_ms), 0.14 + within_ms / 1000) if is_new else (400, 0.44)
    assert idle.longest_ms == longest_ms
    assert idle.until == pytest.approx(max(0.44, until))


@pytest.mark.parametrize(
    ("within_ms", "is_known"), [(49, False), (50, True), (400, True), (440, True), (441, False)]
)
def test_a_known_idle_wait_need_not_end_unless_short(within_ms: int, is_known: bool) -> None:
    idle = seen((0.0, within_ms), known_poll_ms=400)
    assert idle.enough_at() == pytest.approx(0.03 if is_known else max(0.3, idle.until))
    assert idle.longest_ms == (0 if is_known else within_ms)


def test_concurrent_work_makes_the_evidence_unknown() -> None:
    idle = seen((0.0, 400), known_poll_ms=400)
    idle.require_longer_idle()
    assert idle.enough_at() == 0.3


@pytest.mark.parametrize(("within_ms", "is_same"), [(900, True), (1100, True), (899, False)])
def test_a_display_returns_to_the_same_wait_within_a_tenth(within_ms: int, is_same: bool) -> None:
    assert PeriodicRedraw(1000, 0.0).record_return(within_ms) == is_same


def test_a_display_is_recognised_after_two_returns_and_two_periods() -> None:
    redraw = PeriodicRedraw(1000, 0.0)
    told = [redraw.is_display(9.0)]
    for _ in range(2):
        redraw.record_return(1000)
        told.append(redraw.is_display(9.0))
    assert told == [False, False, True]
    assert not redraw.is_display(1.999) and redraw.is_display(2.0), (
        "keys that are typed draw it, too"
    )


def test_a_display_draws_for_a_moment_each_time() -> None:
    """Counted from the first sighting, and anew after each return."""
    redraw = PeriodicRedraw(1000, 0.0)
    assert redraw.record_work(1.0) and redraw.record_work(1.09) and not redraw.record_work(1.11)
    redraw.record_return(1000)
    assert redraw.record_work(2.0) and redraw.record_work(2.09) and not redraw.record_work(2.11)
    redraw.record_rest()
    assert redraw.record_work(3.0) and not redraw.record_work(3.11)
