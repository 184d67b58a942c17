"""Silence counts from the first inconclusive snapshot, while no process of the program starts or
ends."""

from __future__ import annotations

from math import inf

import pytest

from haftd.executions.execution import Silence
from haftd.runtimes.base import InputState


def unknown(*processes: tuple[int, int, int]) -> InputState:
    return InputState("unknown", "line", processes=frozenset(processes))


def since(*looks: InputState) -> float:
    """Return the start of the silence after these snapshots, a second apart."""
    silence = Silence()
    for now, wanted in enumerate(looks):
        silence.record(wanted, float(now))
    return silence.since


SHELL, CHILD, OTHER = (1, 10, 0), (2, 20, 0), (3, 20, 0)


def test_silence_begins_at_the_first_inconclusive_snapshot() -> None:
    assert since() == inf
    assert since(unknown(SHELL), unknown(SHELL), unknown(SHELL)) == 0
    assert since(unknown(), unknown()) == 0, "nobody may be looked at"


@pytest.mark.parametrize("wanted", [InputState("busy"), InputState("reads", "line")])
def test_a_conclusive_snapshot_ends_the_silence(wanted: InputState) -> None:
    assert since(unknown(SHELL), wanted) == inf
    assert since(unknown(SHELL), wanted, unknown(SHELL)) == 2


@pytest.mark.parametrize(
    "changed",
    [
        unknown(SHELL),  # a process is gone
        unknown(SHELL, CHILD, OTHER),  # a process has started
        unknown(SHELL, OTHER),
        unknown(SHELL, (2, 21, 0)),  # its pid was reused
        unknown((1, 10, 57), CHILD),  # a process came and went in between
    ],
)
def test_a_start_or_end_between_snapshots_ends_the_silence(changed: InputState) -> None:
    assert since(unknown(SHELL, CHILD), changed) == 1
    assert since(unknown(SHELL, CHILD), changed, changed) == 1
