"""Recordings: what is written is read again, and what is not of the format is named."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.asciicast import Event, Header, NotARecording, Writer, read


def test_version_3_has_the_time_since_the_event_before() -> None:
    writer = Writer(Header(3, 80, 24, timestamp=7, title="t"))
    text = (
        writer.header() + writer.output(100, b"a") + writer.output(350, b"b") + writer.end(400, 2)
    )
    header, *events = [json.loads(line) for line in text.splitlines()]
    assert header == {"version": 3, "term": {"cols": 80, "rows": 24}, "timestamp": 7, "title": "t"}
    assert events == [[0.1, "o", "a"], [0.25, "o", "b"], [0.05, "x", "2"]]


def test_version_2_has_the_time_since_the_start_and_no_exit_status() -> None:
    writer = Writer(Header(2, 80, 24))
    text = (
        writer.header() + writer.output(100, b"a") + writer.output(350, b"b") + writer.end(400, 2)
    )
    header, *events = [json.loads(line) for line in text.splitlines()]
    assert header == {"version": 2, "width": 80, "height": 24}
    assert events == [[0.1, "o", "a"], [0.35, "o", "b"]]


@given(
    st.sampled_from([2, 3]),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=40).map(str.encode),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=8),
    st.data(),
)
def test_a_recording_holds_all_output_however_it_was_cut(
    version: int, data: bytes, gaps: list[int], draw: st.DataObject
) -> None:
    times = list(accumulate(gaps))
    cuts = sorted(
        draw.draw(
            st.lists(st.integers(0, len(data)), min_size=len(times) - 1, max_size=len(times) - 1)
        )
    )
    writer = Writer(Header(version, 80, 24))
    lines = writer.header()
    for at_ms, (begin, end) in zip(times, pairwise([0, *cuts, len(data)]), strict=True):
        lines += writer.output(at_ms, data[begin:end])
    lines += writer.end(times[-1])
    header, events = read(lines.splitlines(keepends=True))
    shown = list(events)
    assert header == Header(version, 80, 24)
    assert "".join(event.data for event in shown) == data.decode()
    assert {event.at_ms for event in shown} <= set(times)


def test_comments_and_unknown_events_are_no_errors() -> None:
    lines = [
        b'{"version":3,"term":{"cols":9,"rows":8}}',
        b"# a remark",
        b"",
        b'[1,"z","?"]',
        b'[1.5,"o","x"]',
    ]
    _, events = read(lines)
    assert list(events) == [Event(1000, "z", "?"), Event(2500, "o", "x")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "line 1 is not valid JSON"),
        (b"[]", "line 1: it must be an object"),
        (b'{"version":1}', "line 1: it must be an asciicast of version 2 or 3, not 1"),
        (
            b'{"version":3,"term":{"cols":"x"}}',
            "line 1: the size of the terminal (cols, rows) is missing",
        ),
        (b'{"version":2}', "line 1: the size of the terminal (width, height) is missing"),
    ],
)
def test_a_wrong_header_is_named(line: bytes, message: str) -> None:
    with pytest.raises(NotARecording) as fault:
        read([line] if line else [])
    assert message in str(fault.value)


@pytest.mark.parametrize(
    "line", [b"{", b"{}", b'["o",1,"x"]', b'[-1,"o","x"]', b'[1,"o"]', b"\xff"]
)
def test_a_wrong_event_is_named_by_its_line(line: bytes) -> None:
    _, events = read([b'{"version":2,"width":1,"height":1}', b'[0,"o","x"]', line])
    with pytest.raises(NotARecording, match="line 3"):
        list(events)
