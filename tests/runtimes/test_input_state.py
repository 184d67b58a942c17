from __future__ import annotations

from dataclasses import replace

import pytest

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.base import Wanted
from haftd.runtimes.process.input_state import translate

KEYS = ReadState("reads", "key", True)
LINE = ReadState("reads", "line", True)


@pytest.mark.parametrize(
    ("told", "means"),
    [
        (KEYS, Wanted("reads", "key")),
        (replace(KEYS, within_ms=4000), Wanted("reads", "key")),
        (replace(KEYS, within_ms=1500), Wanted("reads", "key")),
        (replace(KEYS, within_ms=1499), Wanted("reads", "key", 1499)),
        (replace(KEYS, within_ms=90, at_work=True), Wanted("reads", "key", 90, True)),
        (replace(KEYS, within_ms=0), Wanted("reads", "key", 0)),
        (replace(KEYS, relays=True), Wanted("unknown", "key")),
        (replace(KEYS, loops=True), Wanted("reads", "key")),
        (replace(KEYS, loops=True, within_ms=8000), Wanted("reads", "key")),
        (replace(KEYS, loops=True, at_work=True), Wanted("unknown", "key")),
        (replace(KEYS, at_work=True), Wanted("reads", "key")),
        (replace(LINE, loops=True), Wanted("reads", "line")),
        (replace(LINE, loops=True, within_ms=700), Wanted("reads", "line", 700)),
        (replace(LINE, loops=True, within_ms=1700), Wanted("unknown", "line")),
        (ReadState("busy", None, True), Wanted("busy")),
        (ReadState("busy", None, False), Wanted("unknown")),
        (ReadState("unknown", "secret"), Wanted("unknown", "secret")),
    ],
)
def test_wait_states_are_translated(told: ReadState, means: Wanted) -> None:
    assert translate(told) == means
