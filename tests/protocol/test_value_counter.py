"""The counter of names and values gives the same count with any slices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol import json_text
from haft_protocol.json_text import ValueCounter, measure_depth

TEXT = st.text(st.sampled_from(list('\\\\\\",:[]{}ae\u00e9\n')))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=40,
)


def counted(value: Any) -> int:
    """Return the number of names and values; an empty list or object counts one more."""
    if isinstance(value, dict):
        return 1 + max(1, sum(1 + counted(one) for one in value.values()))
    if isinstance(value, list):
        return 1 + max(1, sum(map(counted, value)))
    return 1


@given(value=JSON, size=st.integers(1, 12).map(lambda half: 2 * half))
def test_the_count_does_not_depend_on_the_slices(value: Any, size: int) -> None:
    message = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_SLICE", size)
        counter = ValueCounter(message, 1_000)
        while not counter.step():
            pass
    assert counter.count.values == counted(value)
    assert measure_depth(counter.count.brackets) == measure_depth(message)


def test_counting_ends_past_the_limit() -> None:
    counter = ValueCounter(b"[" + b"0," * 1_000_000, 5)
    assert counter.step()
    assert 5 < counter.count.values < 100_000


@pytest.mark.parametrize("unit", [b"x", b"\\\\", b'\\"', b"[", b'"",', b"\\", b"\xff"])
def test_a_step_is_bounded_for_any_message(unit: bytes) -> None:
    message = b'{"a":"' + unit * (1_000_000 // len(unit))
    counter, steps = ValueCounter(message, len(message)), 1
    while not counter.step():
        steps += 1
    assert steps >= len(message) // 65_536
