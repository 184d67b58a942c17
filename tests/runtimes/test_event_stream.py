from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.http_exchange import TooLong
from haftd.runtimes.mcp.event_stream import Event, EventParser

STREAM = b": hello\ndata: one\n\nid: 7\r\ndata: two\r\ndata:lines\r\n\r\nevent: x\rretry: 1500\rdata\r\r\n\n"
EVENTS = [Event(b"one"), Event(b"two\nlines", "7"), Event(b"", "7")]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_in_any_cut_of_the_stream(cuts: list[int]) -> None:
    parser = EventParser(1000)
    places = [0, *sorted(cuts), len(STREAM)]
    found = []
    for start, stop in pairwise(places):
        found += parser.feed(STREAM[start:stop])
    assert found == EVENTS
    assert parser.retry_s == 1.5


def test_an_endless_event_is_refused() -> None:
    parser = EventParser(10)
    with pytest.raises(TooLong):
        parser.feed(b"data: " + b"x" * 20)
