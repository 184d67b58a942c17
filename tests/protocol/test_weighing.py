"""What a long message weighs, told a slice at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol import weighing
from haft_protocol.nesting import nesting
from haft_protocol.weighing import Scale

TEXT = st.text(st.sampled_from(list('\\\\\\",:[]{}ae\u00e9\n')))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=40,
)


def counted(value: Any) -> int:
    """Names and values in it; an empty list or object counts one more."""
    if isinstance(value, dict):
        return 1 + max(1, sum(1 + counted(one) for one in value.values()))
    if isinstance(value, list):
        return 1 + max(1, sum(map(counted, value)))
    return 1


@given(value=JSON, size=st.integers(1, 12).map(lambda half: 2 * half))
def test_the_weight_is_that_of_the_value_however_it_is_cut(value: Any, size: int) -> None:
    message = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighing, "_SLICE", size)
        scale = Scale(message, 1_000)
        while not scale.step():
            pass
    assert scale.weight.values == counted(value)
    assert nesting(scale.weight.brackets) == nesting(message)


def test_what_is_too_much_is_not_weighed_to_its_end() -> None:
    scale = Scale(b"[" + b"0," * 1_000_000, 5)
    assert scale.step()
    assert 5 < scale.weight.values < 100_000


@pytest.mark.parametrize("unit", [b"x", b"\\\\", b'\\"', b"[", b'"",', b"\\", b"\xff"])
def test_a_step_is_bounded_whatever_the_message_is(unit: bytes) -> None:
    message = b'{"a":"' + unit * (1_000_000 // len(unit))
    scale, steps = Scale(message, len(message)), 1
    while not scale.step():
        steps += 1
    assert steps >= len(message) // 65_536
