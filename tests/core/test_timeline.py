from __future__ import annotations

from bisect import bisect_right

from hypothesis import example, given
from hypothesis import strategies as st

from haftd.core.timeline import GRAIN, MAX_EVENTS, MAX_POINTS, Timeline

PAUSES = st.sampled_from([0.0, 0.001, 0.004, 0.01, 0.3, 50.0])


@example([0.01, 0.3, 0.01, 0.01, 0.001, 0.01, 0.01, 0.01, 0.01, 0.01], 228)
@given(st.lists(PAUSES, max_size=60), st.integers(1, 400))
def test_every_byte_was_appended_within_the_grain_of_its_point(
    pauses: list[float], rounds: int
) -> None:
    timeline = Timeline()
    times: list[float] = []
    now = 100.0
    for _ in range(rounds):
        for pause in pauses:
            now += pause
            timeline.record(len(times), now)
            times.append(now)
    points = timeline.since(0, MAX_POINTS + 1)
    assert len(points) <= MAX_POINTS
    assert bool(points) == bool(times)
    offsets = [offset for offset, _ in points]
    assert offsets == sorted(set(offsets))
    for offset, at in enumerate(times):
        point = points[bisect_right(offsets, offset) - 1]
        assert point[1] == times[point[0]]
        assert 0 <= at - point[1] < timeline.error + 1e-9


def test_two_appends_within_the_grain_are_one_point() -> None:
    timeline = Timeline()
    timeline.record(0, 1.0)
    timeline.record(5, 1.0 + GRAIN / 2)
    timeline.record(9, 1.0 + GRAIN)
    assert timeline.since(0, 10) == [(0, 1.0), (9, 1.0 + GRAIN)]


def test_points_begin_with_the_one_of_the_offset_and_end_at_the_limit() -> None:
    timeline = Timeline()
    for at in range(5):
        timeline.record(10 * at, float(at))
    assert timeline.since(25, 2) == [(20, 2.0), (30, 3.0)]
    assert timeline.since(10, 1) == [(10, 1.0)]
    assert timeline.since(999, 5) == [(40, 4.0)]


def test_a_burst_after_a_long_silence_keeps_its_own_point_when_points_are_dropped() -> None:
    timeline = Timeline()
    for number in range(MAX_POINTS):
        timeline.record(number, number * GRAIN)
    timeline.record(MAX_POINTS, 3_600.0)
    assert timeline.since(MAX_POINTS, 5) == [(MAX_POINTS, 3_600.0)]
    assert len(timeline.since(0, MAX_POINTS)) < MAX_POINTS


def test_inputs_within_a_grain_are_one_and_events_are_bounded() -> None:
    timeline = Timeline()
    timeline.add_input(0, 1.0, 3)
    timeline.add_input(2, 1.001, 4)
    assert list(timeline.inputs) == [(0, 1.0, 7)]
    for number in range(5_000):
        timeline.add_input(number, 2.0 + number, 1)
        timeline.add_resize(number, 2.0 + number, 24, 80)
    assert len(timeline.inputs) == len(timeline.resizes) == MAX_EVENTS
    assert timeline.inputs[-1] == (4_999, 5_001.0, 1)
