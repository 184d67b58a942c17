from __future__ import annotations

import pytest

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.base import Wanted
from haftd.runtimes.process.control import translate

KEYS = ReadState("reads", "key", True)
LINE = ReadState("reads", "line", True)


@pytest.mark.parametrize(
    ("told", "means"),
    [
        (KEYS, Wanted("reads", "key")),
        (KEYS._replace(within_ms=4000), Wanted("reads", "key")),
        (KEYS._replace(within_ms=1500), Wanted("reads", "key")),
        (KEYS._replace(within_ms=1499), Wanted("reads", "key", 1499)),
        (KEYS._replace(within_ms=90, at_work=True), Wanted("reads", "key", 90, True)),
        (KEYS._replace(within_ms=0), Wanted("reads", "key", 0)),
        (KEYS._replace(relays=True), Wanted("unknown", "key")),
        (KEYS._replace(loops=True), Wanted("reads", "key")),
        (KEYS._replace(loops=True, within_ms=8000), Wanted("reads", "key")),
        (KEYS._replace(loops=True, at_work=True), Wanted("unknown", "key")),
        (KEYS._replace(at_work=True), Wanted("reads", "key")),
        (LINE._replace(loops=True), Wanted("reads", "line")),
        (LINE._replace(loops=True, within_ms=700), Wanted("reads", "line", 700)),
        (LINE._replace(loops=True, within_ms=1700), Wanted("unknown", "line")),
        (ReadState("busy", None, True), Wanted("busy")),
        (ReadState("busy", None, False), Wanted("unknown")),
        (ReadState("unknown", "secret"), Wanted("unknown", "secret")),
    ],
)
def test_wait_states_are_translated(told: ReadState, means: Wanted) -> None:
    assert translate(told) == means
