"""The spans of standard error in one output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.core import stderr_spans
from haftd.core.stderr_spans import StderrSpans

WRITES = st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=30)


def marked(writes: list[tuple[bool, int]]) -> tuple[StderrSpans, list[bool]]:
    spans, streams = StderrSpans(), list[bool]()
    for is_stderr, size in writes:
        spans.record(len(streams), is_stderr=is_stderr)
        streams += [is_stderr] * size
    return spans, streams


@given(WRITES, st.integers(0, 60), st.integers(0, 60))
def test_each_byte_is_of_the_stream_that_it_was_written_to(
    writes: list[tuple[bool, int]], start: int, stop: int
) -> None:
    spans, streams = marked(writes)
    start, stop = min(start, len(streams)), min(stop, len(streams))
    shown = {at for begin, end in spans.between(start, stop) for at in range(begin, end)}
    assert shown == {at for at in range(start, stop) if streams[at]}


def test_the_oldest_changes_are_forgotten_and_later_bytes_stay_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stderr_spans, "MAX_CHANGES", 8)
    spans, streams = marked([(number % 2 == 1, 1) for number in range(100)])
    assert all(streams[begin] for begin, _ in spans.between(0, 100))
    assert spans.between(96, 100) == ((97, 98), (99, 100))
