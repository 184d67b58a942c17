from __future__ import annotations

import pytest

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.base import InputState
from haftd.runtimes.process.control import translate

KEYS = ReadState("reads", "key", True)
LINE = ReadState("reads", "line", True)


@pytest.mark.parametrize(
    ("told", "means"),
    [
        (KEYS, InputState("reads", "key")),
        (KEYS._replace(within_ms=4000), InputState("reads", "key")),
        (KEYS._replace(within_ms=1500), InputState("reads", "key")),
        (KEYS._replace(within_ms=1499), InputState("reads", "key", 1499)),
        (KEYS._replace(within_ms=90, at_work=True), InputState("reads", "key", 90, True)),
        (KEYS._replace(within_ms=0), InputState("reads", "key", 0)),
        (KEYS._replace(relays=True), InputState("unknown", "key")),
        (KEYS._replace(loops=True), InputState("reads", "key")),
        (KEYS._replace(loops=True, within_ms=8000), InputState("reads", "key")),
        (KEYS._replace(loops=True, at_work=True), InputState("unknown", "key")),
        (KEYS._replace(at_work=True), InputState("reads", "key")),
        (LINE._replace(loops=True), InputState("reads", "line")),
        (LINE._replace(loops=True, within_ms=700), InputState("reads", "line", 700)),
        (LINE._replace(loops=True, within_ms=1700), InputState("unknown", "line")),
        (ReadState("busy", None, True), InputState("busy")),
        (ReadState("busy", None, False), InputState("unknown")),
        (ReadState("unknown", "secret"), InputState("unknown", "secret")),
    ],
)
def test_wait_states_are_translated(told: ReadState, means: InputState) -> None:
    assert translate(told) == means
