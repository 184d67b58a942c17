from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.json_text import measure_depth


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


tricky = st.text(st.sampled_from('[]{}"\\,:a\n'), max_size=8)


@given(
    st.recursive(
        tricky | st.integers(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(tricky, inner, max_size=4),
        max_leaves=30,
    )
)
def test_nesting_is_counted_correctly_with_any_texts(value: object) -> None:
    assert measure_depth(json.dumps(value).encode()) == depth(value)
    assert measure_depth(json.dumps(value, indent=1).encode()) == depth(value)


@given(st.lists(st.integers(-30, 30).filter(bool), max_size=60))
def test_deep_nesting_is_counted_correctly(steps: list[int]) -> None:
    """Long runs up and down, as in trees of hundreds of levels."""
    written, level, deepest = b"[", 1, 1
    for step in steps:
        if step > 0:
            written += b"," * written.endswith(b"]") + b"[" * step
        else:
            step = -min(-step, level - 1)
            written += b"]" * -step
        level += step
        deepest = max(deepest, level)
    written += b"]" * level
    assert measure_depth(written) == deepest
